"""A model of several subgraphs as several models: each is a plan, a row and a unit of work of its own.

    models: {net: {subgraphs: [{output_tensors: [box]}, {name: masks, output_tensors: [m1, m2]}]}}

is `net_box` and `net_masks`, each with all other keys of `net`. A subgraph without `name` has the name of its outputs;
without these, or where they are too long for a file's name, its number from 1 on.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from farm.config.fields import as_list, safe_name
from farm.config.yaml_source import KeyPath, YamlSource

LONGEST_SUFFIX = 60
SUBGRAPHS, NAME = "subgraphs", "name"


class ExpandedSource(YamlSource):
    """A deployment file in which every model has one subgraph; mistakes are told where they were written.

    Args:
        source: the file as it was written.
        data: the expanded content.
        origins: the model and the index of the subgraph that an expanded model is made of.
    """

    def __init__(self, source: YamlSource, data: Any, origins: Mapping[str, tuple[str, int]]) -> None:
        super().__init__(source.path, data, source.lines)
        self._origins = origins

    def written(self, key_path: KeyPath) -> KeyPath:
        """The key path of the file as it was written: `models.net_box` is `models.net.subgraphs[0]`."""
        if len(key_path) < 2 or key_path[0] != "models" or key_path[1] not in self._origins:
            return key_path
        (model, index), rest = self._origins[str(key_path[1])], key_path[2:]
        if rest[:2] == (SUBGRAPHS, 0) or not rest:
            rest = (SUBGRAPHS, index, *rest[2:])
        return ("models", model, *rest)


def with_single_subgraphs(source: YamlSource) -> YamlSource:
    """The file with a model for each subgraph; itself where no model has several.

    Raises ConfigError where two subgraphs, or a subgraph and a model, have the same name.
    """
    models = source.data.get("models") if isinstance(source.data, dict) else None
    several = dict(_models_of_several(models)) if isinstance(models, dict) else {}
    if not models or not several:
        return source
    single: dict[str, Any] = {}
    origins: dict[str, tuple[str, int]] = {}
    for model, keys in models.items():
        if model not in several:
            single[model] = keys
            continue
        for index, subgraph in enumerate(several[model]):
            place = ("models", model, SUBGRAPHS, index)
            name = f"{model}_{_suffix(source, place, subgraph)}"
            if name in origins or name in models:
                raise source.error(place, _taken(name, origins))
            single[name], origins[name] = {**keys, SUBGRAPHS: [_without_name(subgraph)]}, (model, index)
    return ExpandedSource(source, {**source.data, "models": single}, origins)


def _models_of_several(models: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    for model, keys in models.items():
        subgraphs = keys.get(SUBGRAPHS) if isinstance(keys, dict) else None
        if isinstance(subgraphs, list) and len(subgraphs) > 1:
            yield model, subgraphs


def _suffix(source: YamlSource, place: tuple[str, str, str, int], subgraph: Any) -> str:
    """What tells a subgraph from the others of its model, of characters that a file's name may have."""
    keys = subgraph if isinstance(subgraph, dict) else {}
    if NAME in keys:
        try:
            return safe_name(str(keys[NAME] or ""))
        except ValueError as error:
            raise source.error((*place, NAME), str(error)) from None
    outputs = as_list(keys.get("output_tensors"))
    words = outputs if isinstance(outputs, list) else []
    suffix = re.sub(r"[^A-Za-z0-9_.-]+", "_", "_".join(str(word).removesuffix(":0") for word in words)).strip("_")
    return suffix if 0 < len(suffix) <= LONGEST_SUFFIX else str(place[-1] + 1)


def _without_name(subgraph: Any) -> Any:
    return {key: value for key, value in subgraph.items() if key != NAME} if isinstance(subgraph, dict) else subgraph


def _taken(name: str, origins: Mapping[str, tuple[str, int]]) -> str:
    """Says who has a name already."""
    owner = "models.{}.subgraphs[{}]".format(*origins[name]) if name in origins else f"models.{name}"
    return f"{name!r} is the name of {owner} already; give this one a name of its own, as in name: head"
