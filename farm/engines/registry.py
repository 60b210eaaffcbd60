"""Collects the engines: those of farm, and entry points of the group `farm.engines` of what is installed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from farm.config.deployment import FARMRT
from farm.config.suggestion import suggestion
from farm.engines.base import Engine
from farm.engines.onnxruntime import OnnxRuntime
from runtime.errors import ConfigError

GROUP = "farm.engines"


@functools.cache
def engines() -> Mapping[str, Engine]:
    """All adapters by their names; ConfigError where an installed package offers what is none."""
    found: dict[str, Engine] = {each.name: each for each in (OnnxRuntime(),)}
    for point in entry_points(group=GROUP):
        try:
            engine = point.load()
        except (Exception, SystemExit) as error:  # whatever its code raises
            raise ConfigError(f"entry point {point.name} of {GROUP} ({point.value}): {error!r}") from None
        if not isinstance(engine, Engine):
            raise ConfigError(
                f"entry point {point.name} of {GROUP} ({point.value}) is no Engine (farm/engines/base.py)"
            )
        found[engine.name] = engine
    return found


def names() -> tuple[str, ...]:
    """All engines, farm's own first."""
    return (FARMRT, *engines())


def named_engines(wanted: Sequence[str]) -> tuple[str, ...]:
    """The names, each once, in order; ConfigError for one that is no engine."""
    for name in wanted:
        if name not in names():
            raise ConfigError(f"{name!r} is no engine{suggestion(name, names())}")
    return tuple(dict.fromkeys(wanted))
