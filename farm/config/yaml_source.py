"""Reads a YAML file into plain data that remembers its lines, so that every error can say `file:line: key: what`.

The subset is deliberate: one document of mappings, sequences and plain text. Anchors, aliases, tags and duplicate keys
are errors, which leaves a hostile file nothing to expand, construct or hide. Every scalar stays the text that was
written (only an empty one, `~` and `null` become None): the pydantic models decide what is a number, so that
`serial: 0123` or `name: no` never change their meaning.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args

import pydantic
import yaml

from farm.config import named_file
from farm.config.suggestion import suggestion
from runtime.errors import ConfigError
from runtime.host.regular_file import open_regular

MAX_SIZE_BYTES = 256 * 1024
MAX_DEPTH = 20

KeyPath = tuple[str | int, ...]
SectionType = TypeVar("SectionType", bound="YamlSection")


class YamlSection(pydantic.BaseModel):
    """Base of the models of a mapping in a file; `not_yet` and `refused` map keys to why they are not accepted."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")
    not_yet: ClassVar[Mapping[str, str]] = {}
    refused: ClassVar[Mapping[str, str]] = {}


class YamlSource:
    """One YAML file: `data` (str, None, list, dict) and the line of each key path."""

    def __init__(self, path: Path, data: Any, lines: Mapping[KeyPath, int]) -> None:
        self.path = path
        self.data = data
        self.lines = lines

    def written(self, key_path: KeyPath) -> KeyPath:
        """The key path as the user wrote it, where the data are made of what was written."""
        return key_path

    def line(self, key_path: KeyPath) -> int:
        """Line of the key, or of the nearest enclosing key when it is absent."""
        key_path = self.written(key_path)
        while key_path not in self.lines:
            key_path = key_path[:-1]
        return self.lines[key_path]

    def error(self, key_path: KeyPath, problem: str) -> ConfigError:
        """Makes the error `file:line: key: problem`."""
        key_path = self.written(key_path)
        key = f"{dotted(key_path)}: " if key_path else ""
        return ConfigError(f"{self.path}:{self.line(key_path)}: {key}{problem}")

    def validate(self, model: type[SectionType]) -> SectionType:
        """Checks the data against the model; of several mistakes the first in the file is reported.

        A missing key comes after all others: it has no line of its own, and is often there under a misspelt name. Where
        nothing else is wrong, all that are missing are told at once.
        """
        try:
            return model.model_validate(self.data)
        except pydantic.ValidationError as error:
            details = error.errors(include_url=False)
        for detail in details:
            detail["loc"] = tuple(key for key in detail["loc"] if key != "[key]")  # pydantic's mark of a bad key
        details.sort(key=lambda detail: (detail["type"] == "missing", self.line(detail["loc"])))
        first, *others = {(self.written(detail["loc"]), detail["msg"]): detail for detail in details}.values()
        if others and first["type"] == "missing":
            also = ", ".join(dotted(self.written(detail["loc"])) for detail in others)
            raise self.error(first["loc"], f"this key is missing, and so {'is' if len(others) == 1 else 'are'} {also}")
        more = f" (and {len(others)} more)" if others else ""
        raise self.error(first["loc"], _problem(model, first) + more)


class WrittenSource(YamlSource):
    """YAML that farm has written for what lies at a path: the user sees no line and no key of it."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(path, _parsed(path, text).data, {(): 1})

    def error(self, key_path: KeyPath, problem: str) -> ConfigError:
        """Makes the error `path: problem`."""
        where = f"{self.path}: "
        return ConfigError(where + problem.removeprefix(where))


def load(path: Path) -> YamlSource:
    """Reads the file; raises ConfigError when it cannot be read or is not the YAML described above."""
    return _parsed(path, _read_text(path))


def _parsed(path: Path, text: str) -> YamlSource:
    try:
        return _Composer(path, yaml.parse(text, Loader=yaml.SafeLoader)).compose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None


def dotted(key_path: KeyPath) -> str:
    """Writes a key path as `models.foo.input_shapes[0]`."""
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in key_path)
    return "".join(parts).removeprefix(".")


def _read_text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            content = file.read(MAX_SIZE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: {named_file.missing(path)}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: {named_file.folder(path)}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_SIZE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_SIZE_BYTES // 1024} KiB, which no such file needs")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text") from None


class _Composer:
    """Turns the parser's events into plain data, and notes lines on the way."""

    def __init__(self, path: Path, events: Iterator[yaml.Event]) -> None:
        self._path = path
        self._events = events
        self._lines: dict[KeyPath, int] = {(): 1}

    def compose(self) -> YamlSource:
        next(self._events)  # stream start
        if not isinstance(next(self._events), yaml.DocumentStartEvent):
            raise ConfigError(f"{self._path}:1: the file is empty")
        data = self._node(next(self._events), ())
        next(self._events)  # document end
        next_event = next(self._events)
        if isinstance(next_event, yaml.DocumentStartEvent):
            raise self._refuse(next_event, "a second document; one file holds one document")
        return YamlSource(self._path, data, self._lines)

    def _node(self, event: yaml.Event, key_path: KeyPath) -> Any:
        self._check(event, key_path)
        self._lines.setdefault(key_path, _line(event))
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(key_path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(key_path)
        return _scalar(event)

    def _mapping(self, key_path: KeyPath) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refuse(event, "a key must be plain text")
            key, line = event.value, _line(event)
            if key in data:
                first_line = self._lines[(*key_path, key)]
                raise self._refuse(event, f"{dotted((*key_path, key))}: given twice, first in line {first_line}")
            self._lines[(*key_path, key)] = line
            data[key] = self._node(next(self._events), (*key_path, key))
        return data

    def _sequence(self, key_path: KeyPath) -> list[Any]:
        data: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            data.append(self._node(event, (*key_path, len(data))))
        return data

    def _check(self, event: yaml.Event, key_path: KeyPath) -> None:
        if len(key_path) > MAX_DEPTH:
            raise self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._refuse(event, "anchors and aliases (& and *) are not supported; write the value out")
        if (tag := getattr(event, "tag", None)) is not None:
            raise self._refuse(event, f"the tag {tag!r} is not supported; write plain text")

    def _refuse(self, event: yaml.Event, problem: str) -> ConfigError:
        return ConfigError(f"{self._path}:{_line(event)}: {problem}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(event: yaml.Event) -> str | None:
    assert isinstance(event, yaml.ScalarEvent)
    empty = event.style is None and event.value in ("", "~", "null")
    return None if empty else event.value


def _problem(model: type[YamlSection], detail: Any) -> str:
    """One phrase for one of pydantic's error records."""
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return _unknown_key(_section_at(model, detail["loc"][:-1]), detail["loc"][-1])
    if kind == "missing":
        return "this key is missing"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in ("model_type", "dict_type"):
        return f"a mapping (key: value) is expected, not {_shown(value)}"
    if kind == "tuple_type":
        return f"a list is expected, not {_shown(value)}"
    if kind == "literal_error":
        return f"{detail['ctx']['expected']} is expected, not {_shown(value)}"
    return f"{_shown(value)} is not accepted: {detail['msg'].removeprefix('Input ')}"


def _unknown_key(section: type[YamlSection], key: str) -> str:
    if key in section.refused:
        return section.refused[key]
    if key in section.not_yet:
        return f"not supported yet; {section.not_yet[key]}"
    return f"unknown key{suggestion(key, list(section.model_fields))}"


def _section_at(section: type[YamlSection], key_path: KeyPath) -> type[YamlSection]:
    """The model that describes the mapping at the key path, found by walking the fields' types."""
    kind: Any = section
    for key in key_path:
        fields = getattr(kind, "model_fields", {})
        arguments = (fields[key].annotation,) if key in fields else get_args(kind)  # dict[str, X] or tuple[X, ...]
        kind = arguments[0] if arguments[-1] is ... else arguments[-1]
    found_section: type[YamlSection] = kind
    return found_section


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
