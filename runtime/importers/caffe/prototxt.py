"""Reads a .prototxt: a network's layers as text, each with its line.

The text is parsed message by message, so that a field that the schema lacks is the fault of one layer: it counts only
where that layer does.
"""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import text_format  # type: ignore[import-untyped]

from runtime.errors import ModelError
from runtime.host.regular_file import open_regular
from runtime.importers.caffe.schema import NetParameter

MAX_BYTES = 4 * 1024**2  # of the text; networks of a thousand layers have one megabyte
MAX_MESSAGE = 160
_UNKNOWN_FIELD = re.compile(r'Message type "caffe\.(\w+)" has no field named "([^"]*)"')
# Comments, strings (an unclosed one ends with its line, so that no text takes more than linear time) and braces.
_STRUCTURE = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|[{<}>]""")


@dataclasses.dataclass(frozen=True)
class LayerText:
    """A layer as the file has it.

    Attributes:
        message: LayerParameter, or V1LayerParameter of an older file.
        line: where it begins.
        unknown_field: the error for the first field that the schema lacks; empty where there is none.
    """

    message: Any
    line: int
    unknown_field: str


@dataclasses.dataclass(frozen=True)
class NetworkText:
    """A network as the file has it; `head` is the NetParameter without its layers."""

    path: Path
    head: Any
    layers: tuple[LayerText, ...]


def load_prototxt(path: Path) -> NetworkText:
    """The network of a file; ModelError with the line of a mistake."""
    head = NetParameter()
    layers: list[LayerText] = []
    for line, text in _parts(_text(path)):
        part, unknown_field = _parsed(path, line, text)
        layers += [LayerText(message, line, unknown_field) for message in (*part.layers, *part.layer)]
        if unknown_field and not (part.layers or part.layer):
            raise ModelError(unknown_field)
        part.ClearField("layers")
        part.ClearField("layer")
        head.MergeFrom(part)
    if not layers:
        raise ModelError(f"{path}: no Caffe network: it has no layer")
    return NetworkText(path, head, tuple(layers))


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if b"\0" in data:
        raise ModelError(f"{path}: binary, not the text of a .prototxt; weights belong to weight_file_path")
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: larger than {MAX_BYTES} bytes; weights belong to weight_file_path, in binary")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ModelError(f"{path}:{line}: not the text of a .prototxt: a byte is not UTF-8") from None


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each message of the top level, and of what stands between them."""
    line, start = 1, 0
    for end in _cuts(text):
        part = text[start:end]
        begin = len(part) - len(part.lstrip())
        yield line + part.count("\n", 0, begin), part[begin:]
        line, start = line + part.count("\n"), end


def _cuts(text: str) -> Iterator[int]:
    """Where to cut: before the name of each message of the top level, behind each, and at the end."""
    depth = start = 0
    for match in _STRUCTURE.finditer(text):
        if match[0] in "{<":
            if not depth:
                yield _name_before(text, start, match.start())
            depth += 1
        elif match[0] in "}>":
            depth = max(0, depth - 1)
            if not depth:
                yield match.end()
                start = match.end()
    yield len(text)


def _name_before(text: str, start: int, end: int) -> int:
    """Where the field's name begins that stands before a brace at `end`, with a colon between them or none."""
    end = start + len(text[start:end].rstrip().removesuffix(":").rstrip())
    while end > start and (text[end - 1].isalnum() or text[end - 1] == "_"):
        end -= 1
    return end


def _parsed(path: Path, line: int, text: str) -> tuple[Any, str]:
    """A part of the file, and the error for its first unknown field; empty where there is none."""
    strict = NetParameter()
    try:
        text_format.Parse(text, strict)
    except text_format.ParseError as error:
        if unknown_field := _unknown_field(path, line, error):
            return _without_unknown_fields(path, line, text), unknown_field
        raise _located(path, line, error) from None
    except RecursionError:
        raise _too_deep(path, line) from None
    return strict, ""


def _without_unknown_fields(path: Path, line: int, text: str) -> Any:
    part = NetParameter()
    try:
        text_format.Parse(text, part, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise _located(path, line, error) from None
    except RecursionError:
        raise _too_deep(path, line) from None
    return part


def _unknown_field(path: Path, line: int, error: Any) -> str:
    found = _UNKNOWN_FIELD.search(str(error))
    if not found:
        return ""
    problem = f"{_where(path, line, error)}: {found[1]} has no field {found[2]!r} that this reader knows"
    return f"{problem}; remove it where it does not change what the network computes"


def _located(path: Path, line: int, error: Any) -> ModelError:
    """The parser's error with file and line before it; a long line that it quotes is cut."""
    message = re.sub(r"^\d+:\d+ : ", "", str(error)).splitlines()[0]
    shown = message if len(message) <= MAX_MESSAGE else f"...{message[-MAX_MESSAGE:]}"
    return ModelError(f"{_where(path, line, error)}: {shown.replace('caffe.', '').replace('.Value', '')}")


def _where(path: Path, line: int, error: Any) -> str:
    return f"{path}:{line + (error.GetLine() or 1) - 1}"


def _too_deep(path: Path, line: int) -> ModelError:
    return ModelError(f"{path}:{line}: its messages are nested too deeply; no Caffe network is")
