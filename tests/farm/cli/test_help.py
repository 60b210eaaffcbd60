"""The command line as one page: a change of a command, an argument, an option or a default shows in the diff.

After a wanted change renew `interface.txt` with `make snapshots`, and read the diff.
"""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from farm import cli
from tests.conftest import require

INTERFACE = Path(__file__).parent / "interface.txt"
WIDTH = 120


def commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[click.Context]:
    """Contexts of a command and of all below it."""
    context = click.Context(command, parent=parent, info_name=name, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child
            yield from commands(child, context, child_name)


CONTEXTS = list(commands(cli.farm, None, "farm"))


def options(context: click.Context) -> Iterator[str]:
    """Each as help shows it, with its default and range; `...` where it may be repeated: `--tag TAG...`."""
    for parameter in context.command.params:
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
            names, text = record
            limits = text.removeprefix(parameter.help or "").strip()
            yield f"{names}{'...' * parameter.multiple} {limits}".strip()


def test_the_command_line_is_that_of_the_page() -> None:
    current = ""
    for context in CONTEXTS:
        usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
        listed = textwrap.wrap(" · ".join(options(context)), WIDTH - 2, break_on_hyphens=False)
        current += textwrap.indent("\n".join([usage, *listed]), "  ").lstrip() + "\n"
    if os.environ.get("FARM_RENEW_SNAPSHOTS"):
        INTERFACE.write_text(current)
    assert INTERFACE.read_text() == current, "renew with `make snapshots`"


def test_every_command_and_option_has_help() -> None:
    for context in CONTEXTS:
        assert context.command.help, context.command_path
        for parameter in context.command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (
                f"{context.command_path}: {parameter.name}"
            )


HEAVY = {
    *("adbutils", "httpx", "jinja2", "numpy", "onnx", "onnxruntime", "paramiko", "plotly", "psutil"),
    *("psycopg", "pyarrow", "pydantic", "pyopencl", "rich", "scipy", "sqlalchemy", "yaml", "ziglang"),
    *("farm.jobs", "farm.report", "farm.store", "farm.rows", "tuner", "asyncio", "sqlite3"),
}
HELP = "from farm import cli; cli.call({arguments!r})"
PROGRAM = "import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The modules that a new process has after that code."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(code=code)], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "tune --help", "nightly --help"])
def test_help_imports_nothing_that_only_work_needs(command: str) -> None:
    assert not imported(HELP.format(arguments=command.split())) & HEAVY


LIGHT = {"pydantic", "yaml", "rich", "click", "psutil"}  # what files and tables are read and shown with


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("run nothere.onnx", set()),
        ("convert empty.onnx", set()),
        ("benchmark --config=nothere.yml", set()),
        ("devices", {*LIGHT, "farm.rows"}),
    ],
    ids=["run", "empty", "config", "devices"],
)
def test_what_needs_no_job_imports_none(command: str, allowed: set[str], tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    code = f"import os; os.chdir({str(tmp_path)!r}); {HELP.format(arguments=command.split())}"
    assert not imported(code) & HEAVY - allowed


@pytest.mark.slow
def test_a_look_at_the_machine_imports_no_job(tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r}); {HELP.format(arguments=['doctor', '--json'])}"
    assert not imported(code) & HEAVY - LIGHT - {"farm.rows"}


# What a job needs only for a model from elsewhere, for rows that are kept, for a page, or where something is decided.
SELDOM = {
    *(
        "asyncio",
        "distributed",
        "httpx",
        "jinja2",
        "onnxruntime",
        "paramiko",
        "plotly",
        "scipy",
        "sqlalchemy",
        "sqlite3",
    ),
    *("runtime.importers.caffe", "runtime.zoo"),
}


@pytest.mark.slow
@pytest.mark.parametrize("job", ["benchmark", "compare", "opbench", "run", "tune", "unit_night"])
def test_a_job_of_a_host_imports_nothing_that_few_need(job: str) -> None:
    assert not imported(f"import farm.cli.{job}, farm.jobs.loading") & SELDOM


@pytest.mark.slow
def test_a_scheduler_imports_nothing_of_units() -> None:
    assert not imported("import farm.cluster.scheduler") & {"farm.rows", "farm.transport", "pydantic", "scipy"}


def test_importing_farm_imports_none_of_its_parts() -> None:
    found = imported("import farm")
    assert not found & HEAVY
    assert not {name for name in found if name.startswith("farm.")}


PAGE = Path(__file__).parents[3] / "docs/install.md"
DEADLINE_S = 60.0
READY = b"ready> "
# Startup file in the home folder, and the line that makes the prompt one that can be waited for.
SHELLS = {
    "bash": (".bashrc", "PS1='ready> '"),
    "zsh": (".zshrc", "PS1='ready> '"),
    "fish": (".config/fish/config.fish", "function fish_prompt; printf 'ready> '; end"),
}
# What is typed before Tab, and the arguments that farm is then called with.
COMPLETIONS = {
    "farm ru": "run",
    "farm run --val": "run --validate",
    "farm emulate ph": "emulate phone",
    "farm run ti": "run tiny.yml",
}
# Completes as farm does; any other call leaves a line with its arguments.
FARM = f"""#!/bin/sh
if [ -n "$_FARM_COMPLETE" ]; then exec {sys.executable} -c 'from farm.cli import main; main()' "$@"; fi
echo "$*" >>"$HOME/called"
"""


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A shell of this machine, whose startup file has the lines that docs/install.md gives for it."""
    name: str = request.param
    require(name, "" if shutil.which(name) else f"no {name} on this machine: apt install {name}")
    startup_file, prompt = SHELLS[name]
    lines = [line for line in PAGE.read_text().splitlines() if f"# in ~/{startup_file}" in line]
    assert lines, f"docs/install.md says nothing of ~/{startup_file}"
    path = tmp_path / startup_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*map(str.strip, lines), prompt, ""]))
    (tmp_path / "tiny.yml").touch()
    (tmp_path / "farm").write_text(FARM)
    (tmp_path / "farm").chmod(0o755)
    return name


def wait_for_prompt(terminal: int) -> None:
    """Reads what the shell prints until its prompt is among it."""
    output, end_s = b"", time.monotonic() + DEADLINE_S
    while READY not in output:
        readable, _, _ = select.select([terminal], [], [], max(0.0, end_s - time.monotonic()))
        assert readable, f"no prompt within {DEADLINE_S:g} s: {output!r}"
        output += os.read(terminal, 4096)


@pytest.mark.slow
def test_tab_completes_commands_options_and_files(shell: str, tmp_path: Path) -> None:
    search = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "PATH": search, "TERM": "xterm", "PYTHONPATH": str(PAGE.parents[1])}
    controller, terminal = pty.openpty()
    command = ["setsid", "--ctty", shell, "-i"]  # fish starts only on a terminal of its own
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **streams) as process:
        os.close(terminal)
        try:
            for words in COMPLETIONS:
                wait_for_prompt(controller)
                os.write(controller, f"{words}\t\r".encode())
            wait_for_prompt(controller)
        finally:
            process.kill()
            os.close(controller)
    assert (tmp_path / "called").read_text().splitlines() == [*COMPLETIONS.values()]
