"""What a converter could not express in ONNX: it leaves such operators under the framework's names."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from runtime.errors import UnsupportedError

MAX_LISTED = 12


def check_operators(model: onnx.ModelProto, title: str) -> None:
    """Raises UnsupportedError that lists all operators that ONNX lacks, with their number and the first of each."""
    foreign: dict[str, list[str]] = {}
    for node in model.graph.node:
        if not _is_known(node):
            foreign.setdefault(node.op_type, []).append(node.name)
    if foreign:
        raise UnsupportedError(f"{title} operators that cannot be converted to ONNX: {listed(foreign)}")


def listed(found: dict[str, list[str]]) -> str:
    """`Name (3, the first is 'node')`, for each kind of node that was found."""
    kinds = (f"{kind} ({len(names)}, the first is {names[0]!r})" for kind, names in sorted(found.items()))
    return ", ".join(_shortened(kinds))


def _shortened(kinds: Iterable[str]) -> list[str]:
    all_kinds = list(kinds)
    more = [f"and {len(all_kinds) - MAX_LISTED} more kinds"] if len(all_kinds) > MAX_LISTED else []
    return all_kinds[:MAX_LISTED] + more


def _is_known(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type)
