"""Where users' operators enter our tables, once each; a graph knows an operator by the name that it gets here."""

import functools
import threading
from collections.abc import Sequence
from typing import Any

from runtime.custom.binding import BoundOperator
from runtime.custom.lowering import lower_to_buffers, lower_to_images
from runtime.errors import ConfigError
from runtime.importers.farm_domain import CustomNames
from runtime.lowering.tables import IMAGE_LOWERINGS, LOWERINGS
from runtime.operators.table import OPERATORS
from runtime.oracle import evaluate

_registered: dict[tuple[str, str], tuple[str, BoundOperator]] = {}  # title and digest -> the graph's name, operator
_TABLES: tuple[dict[str, Any], ...] = (OPERATORS, evaluate.CUSTOM, LOWERINGS, IMAGE_LOWERINGS)
_lock = threading.Lock()


def register(bound: Sequence[BoundOperator]) -> CustomNames:
    """Adds operators that may be used together; returns the names that an import of a model needs.

    An operator that was registered before with the same content is the same; one whose content has changed since gets a
    name of its own, so that graphs made before keep what they were made with. Raises ConfigError where two modules
    define one operator.
    """
    names: dict[tuple[str, str], str] = {}
    modules: dict[str, BoundOperator] = {}
    for operator in bound:
        other = modules.setdefault(operator.title, operator)
        if other.digest != operator.digest:
            raise ConfigError(f"{operator.title} is defined twice: in {other.module} and in {operator.module}")
        names[operator.declared.domain, operator.declared.name] = _name(operator)
    return names


def find_operator(op: str) -> BoundOperator:
    """The operator that a graph knows by this name. Raises KeyError where there is none."""
    return dict(_registered.values())[op]


def forget() -> None:
    """Removes all that was registered: for tests that share a process. Graphs with such operators are unusable then."""
    with _lock:
        for op, _ in _registered.values():
            for table in _TABLES:
                del table[op]
        _registered.clear()


def _name(bound: BoundOperator) -> str:
    key = bound.title, bound.digest
    with _lock:
        if key not in _registered:
            op = bound.title if bound.title not in OPERATORS else f"{bound.title}@{bound.digest}"
            _registered[key] = op, bound
            lowerings = functools.partial(lower_to_buffers, bound), functools.partial(lower_to_images, bound)
            for table, entry in zip(_TABLES, (bound.row(), bound.compute, *lowerings), strict=True):
                table[op] = entry
        return _registered[key][0]
