"""The layers of a network in one form, whatever generation of Caffe wrote it, and those that inference leaves out."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from runtime.errors import ModelError
from runtime.importers.caffe.prototxt import NetworkText
from runtime.importers.caffe.schema import LayerParameter

# Names of V1's enumeration, and of V0 in lower case, that are not the new name in capitals.
_NEW_TYPES = {
    "ABSVAL": "AbsVal", "ARGMAX": "ArgMax", "BNLL": "BNLL", "CONV": "Convolution", "ELTWISE": "Eltwise",
    "HDF5_DATA": "HDF5Data", "HDF5_OUTPUT": "HDF5Output", "IM2COL": "Im2col", "IMAGES": "ImageData",
    "INNERPRODUCT": "InnerProduct", "LRN": "LRN", "MVN": "MVN", "POOL": "Pooling", "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss", "TANH": "TanH",
}  # fmt: skip
_V0_FIELDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Convolution": (
        "convolution_param",
        {"num_output": "num_output", "biasterm": "bias_term", "pad": "pad", "kernelsize": "kernel_size"}
        | {"group": "group", "stride": "stride"},
    ),
    "Pooling": ("pooling_param", {"pool": "pool", "pad": "pad", "kernelsize": "kernel_size", "stride": "stride"}),
    "InnerProduct": ("inner_product_param", {"num_output": "num_output", "biasterm": "bias_term"}),
    "LRN": ("lrn_param", {"local_size": "local_size", "alpha": "alpha", "beta": "beta", "k": "k"}),
    "Dropout": ("dropout_param", {"dropout_ratio": "dropout_ratio"}),
    "Concat": ("concat_param", {"concat_dim": "concat_dim"}),
}
DATA_LAYERS = frozenset(
    {"Data", "ImageData", "HDF5Data", "MemoryData", "WindowData", "DummyData", "AnnotatedData", "VideoData"}
)
TRAINING_LAYERS = frozenset(
    {"Accuracy", "Silence", "HDF5Output", "ContrastiveLoss", "EuclideanLoss", "HingeLoss", "InfogainLoss"}
    | {"MultinomialLogisticLoss", "SigmoidCrossEntropyLoss", "SoftmaxWithLoss", "MultiBoxLoss", "SmoothL1Loss"}
    | {"DetectionEvaluate"}
)


@dataclasses.dataclass(frozen=True)
class CaffeLayer:
    """One layer: the blobs that it reads and writes, and its parameters as the newest LayerParameter.

    Attributes:
        where: the file and line where it begins.
        unknown_field: the error for a field that the schema lacks; empty where there is none.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Any
    where: str
    unknown_field: str

    @property
    def label(self) -> str:
        """Name and type."""
        return f"layer '{self.name}' ({self.type})"

    def __str__(self) -> str:
        return f"{self.where}: {self.label}"


def layers_at_inference(network: NetworkText) -> list[CaffeLayer]:
    """The layers of phase TEST, in the file's order; ModelError for a name that cannot be printed."""
    layers = [
        CaffeLayer(message.name, message.type, tuple(message.bottom), tuple(message.top), message, where, unknown_field)
        for message, where, unknown_field in _upgraded(network)
        if _is_included(message)
    ]
    for layer in layers:
        if not all(text and text.isprintable() for text in (layer.name, layer.type, *layer.bottoms, *layer.tops)):
            raise ModelError(f"{layer.where}: a name, type, bottom or top of a layer is empty or cannot be printed")
    return layers


def _is_included(message: Any) -> bool:
    """Whether a layer counts at inference: phase TEST, level 0, no stage."""
    if message.include:
        return any(map(_applies, message.include))
    return not any(map(_applies, message.exclude))


def _applies(rule: Any) -> bool:
    phase = rule.DESCRIPTOR.fields_by_name["phase"].enum_type.values_by_name["TEST"].number
    if rule.HasField("phase") and rule.phase != phase:
        return False
    if (rule.HasField("min_level") and rule.min_level > 0) or (rule.HasField("max_level") and rule.max_level < 0):
        return False
    return not rule.stage


def _upgraded(network: NetworkText) -> Iterator[tuple[Any, str, str]]:
    """(LayerParameter, where, unknown field) of each layer; V0's padding layers become pads of those that read them."""
    paddings: dict[str, tuple[str, int]] = {}
    for layer in network.layers:
        where, message = f"{network.path}:{layer.line}", _upgraded_message(layer.message)
        if message.type == "Padding":
            for bottom, top in zip(message.bottom, message.top, strict=False):
                paddings[top] = (bottom, layer.message.layer.pad)
            continue
        if message.bottom and message.bottom[0] in paddings:
            message.bottom[0], pad = paddings[message.bottom[0]]
            _set_pad(message, pad, where)
        yield message, where, layer.unknown_field


def _upgraded_message(message: Any) -> Any:
    if message.DESCRIPTOR.name == "LayerParameter":
        return message
    return _from_v0(message) if message.HasField("layer") else _from_v1(message)


def _from_v1(old: Any) -> Any:
    kind = old.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number[old.type].name
    new = LayerParameter(name=old.name, type=_new_type(kind), bottom=old.bottom, top=old.top)
    for field, value in old.ListFields():
        known = new.DESCRIPTOR.fields_by_name.get(field.name)
        if field.name in ("include", "exclude"):
            getattr(new, field.name).extend(value)
        elif known is not None and field.name.endswith("_param"):
            getattr(new, field.name).CopyFrom(value)
    return new


def _from_v0(old: Any) -> Any:
    source = old.layer
    new = LayerParameter(name=source.name, type=_new_type(source.type.upper()), bottom=old.bottom, top=old.top)
    if new.type not in _V0_FIELDS:
        return new
    parameters, names = _V0_FIELDS[new.type]
    for field, value in source.ListFields():
        if field.name in names:
            _set(getattr(new, parameters), names[field.name], value)
    return new


def _set(message: Any, name: str, value: Any) -> None:
    """Sets a field; a repeated one to this only value."""
    if name in ("pad", "kernel_size", "stride") and message.DESCRIPTOR.name == "ConvolutionParameter":
        getattr(message, name)[:] = [value]
        return
    setattr(message, name, value)


def _set_pad(message: Any, pad: int, where: str) -> None:
    if message.type not in ("Convolution", "Pooling"):
        raise ModelError(f"{where}: layer '{message.name}' ({message.type}) reads a padding layer, as only windows can")
    _set(getattr(message, _V0_FIELDS[message.type][0]), "pad", pad)


def _new_type(name: str) -> str:
    """`SIGMOID_CROSS_ENTROPY_LOSS` as `SigmoidCrossEntropyLoss`."""
    return _NEW_TYPES.get(name) or "".join(part.capitalize() for part in name.split("_"))
