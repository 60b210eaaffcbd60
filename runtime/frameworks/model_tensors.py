"""What a model file says of its own inputs and outputs, whatever framework it is of."""

from __future__ import annotations

import dataclasses
import json

Size = int | str  # text: left open, under the name that the model gives it, which may be empty
Sizes = tuple[Size, ...]


@dataclasses.dataclass(frozen=True)
class ModelTensor:
    """An input or output of a model.

    Attributes:
        name: what the deployment file calls it.
        shape: in the model's own order; None where the model does not even say how many axes there are.
        element_type: as in a deployment file, `float32`; another word for a type that none has, empty for unknown.
    """

    name: str
    shape: Sizes | None
    element_type: str

    @property
    def is_open(self) -> bool:
        """Whether a size is left open."""
        return self.shape is None or any(isinstance(size, str) for size in self.shape)

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape of a tensor that leaves nothing open."""
        assert not self.is_open
        return tuple(int(size) for size in self.shape or ())

    @property
    def text(self) -> str:
        """`(batch, 3, 224, 224)`, a nameless open size as `?`."""
        if self.shape is None:
            return "of any shape"
        return f"({', '.join(str(size) or '?' for size in self.shape)})"

    def admits(self, shape: tuple[int, ...]) -> bool:
        """Whether the tensor may have this shape."""
        if self.shape is None:
            return True
        pairs = zip(self.shape, shape, strict=False)
        return len(self.shape) == len(shape) and all(isinstance(size, str) or size == wanted for size, wanted in pairs)


@dataclasses.dataclass(frozen=True)
class ModelTensors:
    """The inputs and outputs of a model, in its own order."""

    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]

    def to_json(self) -> str:
        """The same as text; `of_json` reads it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> ModelTensors:
        """What `to_json` wrote."""
        read = json.loads(text)
        return cls(*(tuple(_of_members(tensor) for tensor in read[kind]) for kind in ("inputs", "outputs")))


def _of_members(members: dict[str, object]) -> ModelTensor:
    shape = members["shape"]
    sizes = tuple(shape) if isinstance(shape, list) else None
    return ModelTensor(str(members["name"]), sizes, str(members["element_type"]))
