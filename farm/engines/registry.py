"""Collects the engines: those of farm, entry points `farm.engines` of what is installed, programs of engines.yml."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from farm.config.deployment import FARMRT
from farm.config.engine_file import DEFAULT_FILE, load_engine_file
from farm.config.suggestion import suggestion
from farm.engines.base import Engine, check_options, split_word
from farm.engines.command import CommandEngine
from farm.engines.executorch import ExecuTorch
from farm.engines.litert import LiteRt
from farm.engines.mnn import Mnn
from farm.engines.ncnn import Ncnn
from farm.engines.onnxruntime import OnnxRuntime
from farm.engines.python_engine import PythonEngine
from runtime.errors import ConfigError

GROUP = "farm.engines"
PINNED = "=="  # between the name of an engine and its version


def engines() -> Mapping[str, Engine]:
    """All by their names; ConfigError where engines.yml is wrong, or an installed package offers what is no engine."""
    file, found = load_engine_file(), dict(adapters())
    for name, libraries in file.libraries.items():
        engine = found.get(name)
        if not isinstance(engine, PythonEngine) or not engine.library:
            known = " and ".join(each.name for each in found.values() if getattr(each, "library", ()))
            raise ConfigError(f"{DEFAULT_FILE}: libraries.{name}: farm runs the C libraries of {known}")
        found[name] = engine.with_libraries(libraries)
    for name in file.engines:
        if name in (FARMRT, *found):
            raise ConfigError(f"{DEFAULT_FILE}: engines.{name}: there is an engine of this name; give it another")
    return {**found, **{name: CommandEngine(name, section) for name, section in file.engines.items()}}


@functools.cache
def adapters() -> Mapping[str, Engine]:
    """Those that need no file."""
    found: dict[str, Engine] = {each.name: each for each in (OnnxRuntime(), LiteRt(), Mnn(), Ncnn(), ExecuTorch())}
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


@dataclasses.dataclass(frozen=True)
class NamedEngine:
    """An engine other than farmrt with its options, and the word for both, such as `ncnn:precision=fp16`."""

    word: str
    engine: Engine
    options: Mapping[str, str]

    @classmethod
    def of(cls, word: str) -> NamedEngine:
        """Reads engines.yml to find it; ConfigError for a word that is wrong."""
        name, options = split_word(word)
        engine = engine_named(name)
        check_options(word, options, engine.options)
        return cls(word, engine, options)


def names() -> tuple[str, ...]:
    """All engines, farm's own first."""
    return (FARMRT, *engines())


def engine_named(name: str) -> Engine:
    """An engine other than farmrt by its name, or one version of it by `NAME==VERSION`; ConfigError for other words."""
    base, pinned, version = name.partition(PINNED)
    if (engine := engines().get(base)) is None:
        if base == FARMRT and pinned:
            raise ConfigError(f"{name}: farmrt is of this farm; `farm compare` takes commits, which have their own")
        raise ConfigError(f"{base!r} is no engine{suggestion(base, names())}")
    return engine.at(version) if pinned else engine


def base_name(word: str) -> str:
    """The engine of a word, without its version and its options."""
    return split_word(word)[0].partition(PINNED)[0]


def at_version(word: str, version: str) -> str:
    """The word of another version of an engine, with the same options."""
    return f"{base_name(word)}{PINNED}{version}{word.removeprefix(split_word(word)[0])}"


def named_engines(wanted: Sequence[str]) -> tuple[str, ...]:
    """The words of engines, each once, in order; ConfigError for one that is no engine, or an option that it lacks."""
    engines()  # a mistake in engines.yml is told whatever is asked for
    for word in wanted:
        if word != FARMRT:
            NamedEngine.of(word)
    return tuple(dict.fromkeys(wanted))
