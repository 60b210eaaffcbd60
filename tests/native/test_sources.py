"""How the C sources are built: who includes whom, who may write a struct, and that contracts are there.

The rules, each a test: no circle of includes, between files or between parts (a part is a header with its file); every
header compiles alone; the names that the linker sees begin with `rt_`; every function that a header declares, and every
struct that it lays open, has a comment; a struct is a part's own (one file has its members), handed out as pointer to
const by the one file that writes it, or a value.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from runtime.native import build
from runtime.native.features import FAMILIES
from runtime.plan import header as generator

NATIVE = Path(build.__file__).parent
PUBLIC = NATIVE / "include" / "farmrt.h"
GENERATED = {NATIVE / "src" / "cpu" / name: text() for name, text in generator.HEADERS.items()}  # as if they lay there
ENGINE = NATIVE / "engine"
HEADERS = sorted([*GENERATED, *(NATIVE / "src").glob("*/*.h"), *ENGINE.glob("*.h"), *FAMILIES.glob("*/*.h"), PUBLIC])
ROOMS = sorted(FAMILIES.glob("*/*.c"))
OWN = [path for path in (NATIVE / "src").glob("*/*.c") if path.parent.name != "without"]
SOURCES = sorted([*OWN, *ENGINE.glob("*.c"), *ROOMS])
WRITTEN = [path for path in (*HEADERS, *SOURCES) if path not in GENERATED]

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^#include "(.+)"', re.MULTILINE)
_STRUCT = re.compile(r"^(?:typedef )?struct (?:(\w+) )?\{.*?^\}(?: (\w+))?;", re.MULTILINE | re.DOTALL)
_OPAQUE = re.compile(r"^typedef struct (\w+) \1;", re.MULTILINE)
_FUNCTION = re.compile(
    r"^(?:RT_API |static inline )?[a-z][\w ]*[ *](\w+)\([^;{]*?\)(?: RT_PRINTF\(.*\))?(?:;| \{)", re.MULTILINE
)
_ISA_SUFFIX = re.compile(r".*\bNAME\((\w+)(?:, RT_ISA)?\).*")  # a name that is made anew for each instruction set
_OWNER = re.compile(r"Written by (\w+\.c) alone\.")
_VALUE = re.compile(r"\bA value\b|\bA value,")


def text_of(path: Path) -> str:
    return GENERATED.get(path) or path.read_text()


def code_of(path: Path) -> str:
    """A file without its comments, of which only the line breaks are left."""
    return _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text_of(path))


def included(path: Path) -> list[Path]:
    names = {generated.name: generated for generated in GENERATED}
    return [names.get(name) or (path.parent / name).resolve() for name in _INCLUDE.findall(text_of(path))]


def circles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Every circle that a walk from each node meets."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> Iterator[list[str]]:
        if node in way:
            yield [*way[way.index(node) :], node]
        elif node not in done:
            for other in sorted(graph.get(node, ())):
                yield from walk(other, [*way, node])
            done.add(node)

    for node in graph:
        yield from walk(node, [])


def part_of(path: Path) -> str:
    """A header and its file are one part; the public header is below them all."""
    return "include/farmrt.h" if path == PUBLIC else path.name.partition(".")[0]


def comment_before(text: str, start: int) -> str:
    """The comment that stands over a declaration: right above it, or above others that no blank line parts from it."""
    group = text[:start].rpartition("\n\n")[2]
    comments = _COMMENT.findall(group)
    return " ".join(comments[0].split()) if comments and group.lstrip().startswith("/*") else ""


def structs(path: Path) -> Iterator[tuple[str, str, str]]:
    """Name, members and comment of each struct that a file lays open."""
    text = text_of(path)
    for found in _STRUCT.finditer(text):
        yield found[1] or found[2], found[0], comment_before(text, found.start())


def test_families_keep_to_operators() -> None:
    """A family's C is of the CPU engine, and its name says how it is compiled; no two objects have one name."""
    assert {path.name.split(".", 1)[1] for path in ROOMS} == {"cpu.c", "exact.cpu.c", "lanes.cpu.c"}
    assert len({path.name for path in SOURCES}) == len(SOURCES)


def test_a_circle_is_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == [["b", "c", "b"]]
    assert not list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}))


def test_files_include_each_other_in_one_direction() -> None:
    graph = {str(path): {str(other) for other in included(path)} for path in (*HEADERS, *SOURCES)}
    assert sum(map(len, graph.values())) > 100
    assert not list(circles(graph))


def test_parts_use_each_other_in_one_direction() -> None:
    """A file may include what uses its header only if that header's file does not, in turn, need it."""
    graph: dict[str, set[str]] = {}
    for path in (*HEADERS, *SOURCES):
        graph.setdefault(part_of(path), set()).update({part_of(other) for other in included(path)} - {part_of(path)})
    assert not list(circles(graph))


def test_the_api_is_implemented_by_the_file_of_its_name() -> None:
    declared = set(re.findall(r"^RT_API .*?(rt_\w+)\(", text_of(PUBLIC), re.MULTILINE))
    code = code_of(NATIVE / "src" / "run" / "farmrt.c")
    defined = set(re.findall(r"^(?!static)\w.*?\b(rt_\w+)\(", code, re.MULTILINE))
    assert len(declared) > 10
    assert declared == defined - {"rt_engine_parts"}  # what the files above the API are shown of an engine


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_header_compiles_alone(header: Path, tmp_path: Path) -> None:
    compiler = [shutil.which("cc")] if shutil.which("cc") else [sys.executable, "-m", "ziglang", "cc"]
    flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-xc", "-"]
    include = build.include_flags(tmp_path)
    name = header.name if header in GENERATED else header
    done = subprocess.run([*compiler, *flags, *include], input=f'#include "{name}"\n', capture_output=True, text=True)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_names_that_the_linker_sees_are_ours(path: Path) -> None:
    """Functions and variables of a file are static or begin with `rt_`; a library shares its names with the program."""
    for line in code_of(path).splitlines():
        function = re.match(r"(?!typedef|static|RT_API|extern|#)[a-z_]\w*[\w *]*?\b(\w+)\(", line)
        variable = re.match(r"(?!typedef|static|extern|#)[a-z_]\w*[\w *]*?\b(\w+)(?:\[\w*\])* =", line)
        for found in filter(None, (function, variable)):
            name = _ISA_SUFFIX.sub(r"\1", line) if found[1] == "NAME" else found[1]
            assert name.startswith("rt_") or name == "main", f"{path.name}: {line}"


@pytest.mark.parametrize("header", [path for path in HEADERS if path not in GENERATED], ids=lambda path: path.name)
def test_what_a_header_declares_has_a_contract(header: Path) -> None:
    text = text_of(header)
    assert text.startswith("/* "), f"{header.name}: says not what the part is"
    for found in _FUNCTION.finditer(text):
        assert comment_before(text, found.start()), f"{header.name}: {found[1]} has no contract"


def test_headers_declare_what_they_are_found_to() -> None:
    """The pattern that finds functions finds them all."""
    for header in HEADERS:
        names = {
            name
            for name in re.findall(r"\b(rt_\w+)\(", code_of(header))
            if not re.search(rf"typedef[^;]*\b{name}\(", code_of(header))
        }
        calls = set(re.findall(r"(?:return|[=:?(,]) ?(rt_\w+)\(", code_of(header)))
        assert names - calls <= {found[1] for found in _FUNCTION.finditer(text_of(header))}, header.name


@pytest.mark.parametrize("header", [path for path in HEADERS if path not in GENERATED], ids=lambda path: path.name)
def test_an_open_struct_says_who_writes_it(header: Path) -> None:
    for name, _, comment in structs(header):
        owner = _OWNER.search(comment)
        assert owner or _VALUE.search(comment), f"{header.name}: {name} says neither its writer nor that it is a value"
        assert not owner or owner[1] in {path.name for path in SOURCES}


def test_only_its_owner_can_write_a_struct() -> None:
    """Outside of its owner there is no pointer to the struct but a pointer to const."""
    owners = {
        name: owned[1]
        for header in HEADERS
        for name, _, comment in structs(header)
        if (owned := _OWNER.search(comment))
    }
    assert {"rt_plan", "rt_device", "rt_bytes", "rt_cpu_call", "rt_program"} < set(owners)
    for path in (*HEADERS, *SOURCES):
        for name, owner in owners.items():
            if path.stem == Path(owner).stem:
                continue
            writable = re.search(rf"(?<!const )(?<!struct )\b{name} \*+(?!const\b)", code_of(path))
            assert not writable, f"{path.name}: a {name} that is not const, which {owner} alone may write"


def test_an_opaque_struct_has_its_members_in_one_file() -> None:
    opaque = {name: path for path in HEADERS for name in _OPAQUE.findall(code_of(path))}
    laid_open = {name: path for path in HEADERS for name, _, _ in structs(path)}
    assert {"rt_storage", "rt_steps", "rt_programs", "rt_tuned", "rt_session", "rt_json"} < set(opaque) - set(laid_open)
    for name, header in opaque.items():
        bodies = [path for path in (*HEADERS, *SOURCES) for found, _, _ in structs(path) if found == name]
        assert len(bodies) == 1, f"{name}: {[path.name for path in bodies]}"
        if name not in laid_open:
            assert bodies[0].name == f"{header.stem}.c"
