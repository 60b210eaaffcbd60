"""The users' operators of a deployment file: those that it names, and those that are installed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm.config import deployment
from farm.config.deployment import Deployment
from farm.config.yaml_source import KeyPath
from farm.operators import modules
from runtime.custom.binding import BoundOperator
from runtime.custom.registry import find_operator, register
from runtime.errors import ConfigError
from runtime.graph import Graph
from runtime.importers.farm_domain import CustomNames
from runtime.operators.table import OPERATORS
from runtime.passes.pipeline import PassReport


def custom_names(source: Deployment, model: str) -> CustomNames:
    """The operators that a model may have; ConfigError with the line of the module that cannot be loaded."""
    bound = modules.load_installed()
    for key_path, name in _named(source, model):
        bound += _loaded(source, key_path, name)
    try:
        return register(bound)
    except ConfigError as error:
        raise source.error(("custom_operators",), str(error)) from None


def custom_report(graph: Graph) -> list[PassReport]:
    """Which nodes are users' operators, and of which module, for `farm convert --explain`; empty without any."""
    nodes = [node for node in graph.nodes if OPERATORS[node.op].custom]
    changes = [f"{node.name}: {(bound := find_operator(node.op)).title} of {bound.module.name}" for node in nodes]
    return [PassReport("custom operators", changes)] if changes else []


def operators_of_files(files: Sequence[Path]) -> list[BoundOperator]:
    """The operators of modules and of deployment files (.yml), and those that are installed; each once.

    Raises ConfigError where one cannot be loaded, or two define one operator.
    """
    found = modules.load_installed()
    for file in files:
        found += _of_deployment(deployment.load(file)) if file.suffix in (".yml", ".yaml") else modules.load_file(file)
    register(found)
    return list({each.title: each for each in found}.values())


def _of_deployment(source: Deployment) -> list[BoundOperator]:
    """What a deployment file names, in it or in any model."""
    found: list[BoundOperator] = []
    for model in source.models:
        for key_path, name in _named(source, model):
            found += _loaded(source, key_path, name)
    return found


def _loaded(source: Deployment, key_path: KeyPath, name: str) -> list[BoundOperator]:
    try:
        return modules.load(name, source.path.parent)
    except ConfigError as error:
        raise source.error(key_path, str(error)) from None


def _named(source: Deployment, model: str) -> Iterator[tuple[KeyPath, str]]:
    """The modules of the file and of a model, with where they stand."""
    yield from ((("custom_operators", index), name) for index, name in enumerate(source.custom_operators))
    of_model = source.models[model].custom_operators
    yield from ((("models", model, "custom_operators", index), name) for index, name in enumerate(of_model))
