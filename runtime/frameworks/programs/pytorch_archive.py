"""What a PyTorch file is, and whether reading it runs code; found out with zip and JSON alone."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Literal

from runtime.errors import ModelError
from runtime.frameworks.programs.description import objects
from runtime.frameworks.request import FrameworkRequest

Kind = Literal["exported", "script"]

MAX_JSON_BYTES = 256 * 1024**2
# torch.export looks up a node's target by its dotted name, and evaluates the expressions of symbolic sizes as Python.
OPERATOR = re.compile(r"torch\.ops\.(?:aten|prims?|quantized(?:_decomposed)?|torchvision)\.\w+(?:\.\w+)?")
FUNCTION = re.compile(r"(?:_operator|math)\.\w+|torch\.sym_\w+")
EXPRESSION = re.compile(r"(?!.*__)(?:[\w\s+*/%(),<>=!-]|'\w+')*")
CALLED = re.compile(r"\w+(?=\s*\()")
SYMPY = frozenset(
    {
        *("Add", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "FloorDiv", "FloorToInt", "Ge", "Gt", "Identity", "Integer"),
        *("IntTrueDiv", "Le", "Lt", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Pow", "PowByNatural"),
        *("PythonMod", "Rational", "Symbol", "TruncToInt", "ceiling", "floor"),
    }
)
TRUST = "--trust-model accepts that of an author whom you trust"


def check(request: FrameworkRequest) -> Kind:
    """The kind of the file. ModelError where it is none of the two, or carries code that the user does not trust."""
    try:
        with zipfile.ZipFile(request.path) as archive:
            kind = _kind(request, archive.namelist())
            if not request.trusted:
                _check_code(request, archive, kind)
            return kind
    except (zipfile.BadZipFile, OSError, ValueError, RecursionError, NotImplementedError):
        raise ModelError(f"{request.model}: no .pt2 and no TorchScript, or truncated; get the file again") from None


def _kind(request: FrameworkRequest, entries: list[str]) -> Kind:
    parts = {PurePosixPath(entry).parts[1:] for entry in entries}
    if any(part[:1] == ("models",) for part in parts) or "serialized_exported_program.json" in entries:
        return "exported"
    if any(part[:1] == ("code",) for part in parts) and ("data.pkl",) in parts:
        return "script"
    if ("data.pkl",) in parts:
        raise ModelError(
            f"{request.model}: a pickle of torch.save, which holds no graph; save torch.export.export(model, inputs) "
            "with torch.export.save"
        )
    raise ModelError(f"{request.model}: a zip file, but no .pt2 and no TorchScript")


def _check_code(request: FrameworkRequest, archive: zipfile.ZipFile, kind: Kind) -> None:
    """Tensors that are pickled are no code: PyTorch reads them without making objects."""
    if kind == "script":
        raise ModelError(
            f"{request.model}: TorchScript, which is code; {TRUST}, and .pt2 of torch.export needs no trust"
        )
    for entry in archive.namelist():
        name = PurePosixPath(entry).name
        if "constants" in PurePosixPath(entry).parts and name.startswith(("custom_obj", "opaque_obj")):
            raise ModelError(f"{request.model}: holds the pickled object {entry!r}; {TRUST}")
        if name.endswith(".json") and archive.getinfo(entry).file_size <= MAX_JSON_BYTES:
            for code in _code(json.loads(archive.read(entry))):
                raise ModelError(f"{request.model}: names {code[:80]!r}, which may run code; {TRUST}")
        if name.endswith((".so", ".py")):
            raise ModelError(f"{request.model}: holds the program {entry!r}; {TRUST}")


def _code(description: Any) -> Iterator[str]:
    """Targets that are no plain operators, and expressions that are no plain arithmetic, wherever they stand."""
    for part in objects(description):
        yield from _code_of(part)


def _code_of(part: dict[str, Any]) -> Iterator[str]:
    target, expression = part.get("target"), part.get("expr_str")
    if isinstance(target, str) and "inputs" in part and not (OPERATOR.fullmatch(target) or FUNCTION.fullmatch(target)):
        yield target
    if isinstance(expression, str) and not _is_arithmetic(expression):
        yield expression


def _is_arithmetic(expression: str) -> bool:
    return bool(EXPRESSION.fullmatch(expression)) and SYMPY.issuperset(CALLED.findall(expression))
