"""An engine with options of its own, in one word: `litert:delegate=libqnn.so:delegate.backend=htp`.

Rows, lanes and comparisons call the engine by the whole word, so that one engine with two options is two engines.
"""

from __future__ import annotations

from collections.abc import Mapping

from farm.config.suggestion import suggestion
from runtime.errors import ConfigError

Choices = Mapping[str, tuple[str, ...]]  # option -> its values, none: any; `session.` stands for all that begin so


def split_word(word: str) -> tuple[str, dict[str, str]]:
    """The engine's name and its options; ConfigError where one has no value, or is given twice."""
    name, *parts = word.split(":")
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"engine {word!r}: {part!r} is no option; write {name}:KEY=VALUE")
        if key in options:
            raise ConfigError(f"engine {word!r}: the option {key} is given twice")
        options[key] = value
    return name, options


def check_options(word: str, options: Mapping[str, str], choices: Choices) -> None:
    """Raises ConfigError for an option that the engine lacks, or a value that it does not take."""
    for key, value in options.items():
        family, dot, rest = key.partition(".")
        known = choices.get(f"{family}." if rest else family + dot * 2)
        if known is None:
            names = tuple(f"{name}NAME" if name.endswith(".") else name for name in choices)
            raise ConfigError(f"engine {word!r} has no option {key}{suggestion(key, names) if names else ''}")
        if known and value not in known:
            raise ConfigError(f"engine {word!r}: {key} is {' or '.join(known)}, not {value}")
