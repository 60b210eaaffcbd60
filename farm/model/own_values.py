"""What a deployment file leaves out, as the model has it: names, shapes and element types of inputs and outputs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import pydantic

from farm.config.deployment import ELEMENT_TYPES, Deployment, ElementType, Input, Model, Subgraph
from farm.config.platforms import PLATFORMS, DataFormat
from farm.model.boundary import TO_NCHW, TO_NHWC
from farm.model.fetch import Fetcher
from farm.model.framework_model import DECLARATIONS, FrameworkModel
from runtime.errors import ConfigError
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors
from runtime.importers.onnx_tensors import element_name

IMAGE_RANK = 4
USUAL_SIZE = {IMAGE_RANK: 224}  # of an open axis behind the first, by rank; else that of a sequence
USUAL_LENGTH = 128
BATCH = frozenset({"n", "b", "bs", "batch", "batch_size", "batchsize"})  # names of an open first axis: samples at once


def own_tensors(source: Deployment, name: str, fetcher: Fetcher) -> ModelTensors:
    """The inputs and outputs that a model of a deployment file has of its own.

    Raises ConfigError where the file or a package is missing, ModelError where the model cannot be read.
    """
    settings, path = source.models[name], fetcher.model_file(name)
    if settings.platform in DECLARATIONS:
        return DECLARATIONS[settings.platform](path)
    own = PLATFORMS[settings.platform].own_format
    model = FrameworkModel(settings.platform, path, (), (), own, source.trusts_models)
    return model.own_tensors(fetcher.cache_folder)


def completed(settings: Model, own: ModelTensors) -> Model:
    """The same model with names and shapes for what its subgraph leaves open.

    Raises ConfigError where a shape is asked for that the model leaves open, or where the keys do not fit the model.
    """
    given = settings.subgraphs[0]
    names = given.input_tensors or _names("input", own.inputs)
    keys: dict[str, Any] = {
        **{key: getattr(given, key) for key in given.model_fields_set},
        "input_tensors": names,
        "output_tensors": given.output_tensors or _names("output", own.outputs),
    }
    if not given.input_shapes:
        tensors = [_own_tensor(settings.platform, name, at, own) for at, name in enumerate(names)]
        if open_ones := [tensor for tensor in tensors if of_one_sample(tensor).is_open]:
            shapes = ", ".join(f'"{usual_shape(tensor)}"' for tensor in tensors)
            raise ConfigError(f"{question(open_ones)} with input_shapes: [{shapes}]")
        formats = given.input_data_formats or _as_they_are(settings.platform)
        keys["input_data_formats"] = formats
        spread = formats * len(tensors) if len(formats) == 1 else formats
        pairs = zip(map(of_one_sample, tensors), spread, strict=False)
        keys["input_shapes"] = tuple(_in_format(tensor, wanted, settings.platform) for tensor, wanted in pairs)
    return settings.model_copy(update={"subgraphs": (_checked(keys),)})


def deployed_inputs(source: Deployment, name: str, fetcher: Fetcher) -> tuple[Input, ...]:
    """The inputs of a model that is not read for anything else; errors as those of `own_tensors` and `completed`."""
    settings = source.models[name]
    if settings.subgraph.is_open or not settings.subgraph.input_data_types:
        own = own_tensors(source, name, fetcher)
        settings = completed(settings, own)
        named = enumerate(settings.subgraph.input_tensors)
        types = {name: _own_tensor(settings.platform, name, at, own).element_type for at, name in named}
        return typed_inputs(settings.subgraph.inputs, types)
    return settings.subgraph.inputs


def typed_inputs(inputs: Sequence[Input], types: Mapping[str, str]) -> tuple[Input, ...]:
    """The inputs, with the model's element types where the deployment file says none."""
    return tuple(
        tensor if tensor.has_type else dataclasses.replace(tensor, data_type=_element_type(tensor, types))
        for tensor in inputs
    )


def element_types(model: onnx.ModelProto) -> dict[str, str]:
    """The element types that an ONNX model says, by tensor."""
    values = (*model.graph.value_info, *model.graph.output, *model.graph.input)
    return {value.name: element_name(value.type.tensor_type.elem_type) for value in values}


def question(tensors: Sequence[ModelTensor]) -> str:
    """Asks for the shapes of inputs that the model leaves open; how to say them follows."""
    listed = " and ".join(f"input {tensor.name!r} is {tensor.text}" for tensor in tensors)
    return f"{listed}: say {'its shape' if len(tensors) == 1 else 'their shapes'}"


def of_one_sample(tensor: ModelTensor) -> ModelTensor:
    """The tensor with one sample where its name says that the model leaves their number open."""
    first, *others = tensor.shape or ("",)
    is_open = isinstance(first, str) and first.lower() in BATCH
    return dataclasses.replace(tensor, shape=(1, *others)) if is_open else tensor


def usual_shape(tensor: ModelTensor) -> str:
    """An example for a tensor's shape: one sample, and what images and sequences often have."""
    sizes = tensor.shape or ("", 3, "", "")
    behind = USUAL_SIZE.get(len(sizes), USUAL_LENGTH)
    named = [size if isinstance(size, int) else behind if axis else 1 for axis, size in enumerate(sizes)]
    return ",".join(map(str, named))


def _names(kind: str, tensors: Sequence[ModelTensor]) -> tuple[str, ...]:
    if not tensors:
        raise ConfigError(f"the model has no {kind}s; farm runs models with at least one")
    return tuple(tensor.name for tensor in tensors)


def _own_tensor(platform: str, name: str, at: int, own: ModelTensors) -> ModelTensor:
    """The model's tensor of a name; PyTorch's go by their places. An inner tensor is one of any shape."""
    if platform == "pytorch" and at < len(own.inputs):
        return dataclasses.replace(own.inputs[at], name=name)
    known = {spelling: tensor for tensor in own.inputs for spelling in (tensor.name, tensor.name.removesuffix(":0"))}
    return known.get(name) or known.get(name.removesuffix(":0")) or ModelTensor(name, None, "")


def _as_they_are(platform: str) -> tuple[DataFormat, ...]:
    return ("NONE",) if platform == "onnx" else (PLATFORMS[platform].own_format,)


def _in_format(tensor: ModelTensor, wanted: DataFormat, platform: str) -> tuple[int, ...]:
    """The tensor's shape in the order of a format."""
    shape = tensor.fixed_shape
    if len(shape) != IMAGE_RANK or wanted in ("NONE", PLATFORMS[platform].own_format):
        return shape
    return tuple(shape[axis] for axis in (TO_NHWC if wanted == "NHWC" else TO_NCHW))


def _checked(keys: dict[str, Any]) -> Subgraph:
    try:
        return Subgraph.model_validate(keys)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(f"{first['loc'][0]}: {first['msg'].removeprefix('Value error, ')}") from None


def _element_type(tensor: Input, types: Mapping[str, str]) -> ElementType:
    own = types.get(tensor.name) or tensor.data_type
    if own not in ELEMENT_TYPES:
        raise ConfigError(f"input {tensor.name!r} holds {own}; farm runs {', '.join(ELEMENT_TYPES)}")
    found: ElementType = own  # type: ignore[assignment]
    return found
