"""What a framework is asked: a model, the tensors at its boundary, and whether its code may run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class FrameworkRequest:
    """A model and its boundary, in the words of the deployment file.

    Attributes:
        platform: a key of `frameworks.FRAMEWORKS`.
        model: absolute path of the file, or of a SavedModel's folder.
        inputs: name and shape of each input, in the model's own order of axes.
        outputs: names of the outputs; these and the inputs' are what the ONNX model calls them.
        trusted: the user trusts the model's author, so that it may hold code.
    """

    platform: str
    model: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[str, ...]
    trusted: bool = False

    @property
    def path(self) -> Path:
        """The model."""
        return Path(self.model)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(name for name, _ in self.inputs)

    def to_json(self) -> str:
        """The same as text; `of_json` reads it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> FrameworkRequest:
        """The request that `to_json` wrote."""
        given = json.loads(text)
        inputs = tuple((name, tuple(shape)) for name, shape in given["inputs"])
        return cls(given["platform"], given["model"], inputs, tuple(given["outputs"]), given["trusted"])
