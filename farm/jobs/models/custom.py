"""The users' operators of a deployment file: those that it names, and those that are installed."""

from __future__ import annotations

from collections.abc import Iterator

from farm.config.deployment import Deployment
from farm.config.yaml_source import KeyPath
from farm.operators import modules
from runtime.custom.binding import BoundOperator
from runtime.custom.registry import register
from runtime.errors import ConfigError
from runtime.importers.custom_nodes import CustomNames


def custom_names(source: Deployment, model: str) -> CustomNames:
    """The operators that a model may have; ConfigError with the line of the module that cannot be loaded."""
    bound = modules.load_installed()
    for key_path, name in _named(source, model):
        try:
            bound += modules.load(name, source.path.parent)
        except ConfigError as error:
            raise source.error(key_path, str(error)) from None
    try:
        return register(bound)
    except ConfigError as error:
        raise source.error(("custom_operators",), str(error)) from None


def all_operators(source: Deployment) -> list[BoundOperator]:
    """The operators that a deployment file names, in it or in any model; ConfigError as above."""
    found: list[BoundOperator] = []
    for model in source.models:
        custom_names(source, model)
        for _, name in _named(source, model):
            found += modules.load(name, source.path.parent)
    return list({(each.title, each.digest): each for each in found}.values())


def _named(source: Deployment, model: str) -> Iterator[tuple[KeyPath, str]]:
    """The modules of the file and of a model, with where they stand."""
    yield from ((("custom_operators", index), name) for index, name in enumerate(source.custom_operators))
    of_model = source.models[model].custom_operators
    yield from ((("models", model, "custom_operators", index), name) for index, name in enumerate(of_model))
