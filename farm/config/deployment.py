"""Reads a deployment file: models, shapes, runtimes, ABIs and SoCs, under the keys that MACE users know.

    library_name: mobile_squeeze
    target_abis: [host]                     # also as text: host, arm64-v8a
    target_socs: [sdm845]                   # optional: tune for these only
    model_graph_format: code                # optional: plans also as C source and static library; default: file
    model_data_format: code                 # optional: their weights too
    models:
      squeezenet_v11:                       # the model's name: letters, digits, `_`, `-` and `.`
        platform: onnx
        model_file_path: zoo://squeezenet_v11?width=1.0&size=227   # or a path beside this file, or http(s)://
        model_sha256_checksum: 625c95...    # optional
        subgraphs:
          - input_tensors: [data]
            input_shapes: ["1,3,227,227"]   # also as a list of lists
            output_tensors: [prob]
        runtime: cpu+gpu                    # cpu, gpu or both, each validated and measured on its own
        data_type: fp16_fp32                # GPU: storage_arithmetic; a CPU runtime always computes in fp32

One format, type or range given for several tensors counts for all of them. A tensor's format says how its data and its
shape lie in this file and in the application: NCHW (default, ONNX's own order), NHWC (the runtime transposes at the
boundary) or NONE (no image: taken as it is). A key that does not work yet is refused, never ignored.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator

from farm.config import yaml_source
from farm.config.fields import (
    Abis,
    Checksum,
    Location,
    Range,
    SafeName,
    Shape,
    Similarity,
    SocKey,
    Text,
    as_list,
    not_empty,
    split_text,
)
from farm.config.yaml_source import KeyPath, YamlSection, YamlSource
from runtime.errors import ConfigError

DataFormat = Literal["NCHW", "NHWC", "NONE"]
ElementType = Literal[
    "float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"
]
Form = Literal["file", "code"]
DataType = Literal["fp16_fp32", "fp32_fp32", "fp16_fp16"]
Runtime = Literal["cpu", "gpu"]

RUNTIMES: dict[str, tuple[Runtime, ...]] = {
    "cpu": ("cpu",),
    "gpu": ("gpu",),
    "cpu+gpu": ("cpu", "gpu"),
    "cpu_gpu": ("cpu", "gpu"),
}

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Input:
    """An input as the application sees it: `shape` and data lie in `data_format`; test data fill `value_range`."""

    name: str
    shape: tuple[int, ...]
    data_type: ElementType
    data_format: DataFormat
    value_range: tuple[float, float]

    @property
    def graph_shape(self) -> tuple[int, ...]:
        """The shape in the graph's own (NCHW) order."""
        return to_graph_order(self.shape, self.data_format)


@dataclasses.dataclass(frozen=True)
class Output:
    """An output as the application sees it; no `shape` or `data_type` means the one that the model has."""

    name: str
    shape: tuple[int, ...] | None
    data_format: DataFormat
    data_type: ElementType | None = None

    @property
    def graph_shape(self) -> tuple[int, ...] | None:
        """The shape in the graph's own (NCHW) order."""
        return None if self.shape is None else to_graph_order(self.shape, self.data_format)


def to_graph_order(shape: tuple[int, ...], data_format: DataFormat) -> tuple[int, ...]:
    """An NHWC shape of rank 4 as NCHW; every other shape as it is."""
    if data_format == "NHWC" and len(shape) == 4:
        n, h, w, c = shape
        return (n, c, h, w)
    return shape


class Subgraph(YamlSection):
    """The model's inputs and outputs, and the data to check them with."""

    not_yet: ClassVar = {
        "validation_outputs_data": "outputs are compared with ONNX Runtime's",
        "accuracy_validation_script": "outputs are compared with ONNX Runtime's",
    }

    input_tensors: Annotated[tuple[Text, ...], BeforeValidator(as_list), AfterValidator(not_empty)]
    input_shapes: Annotated[tuple[Shape, ...], BeforeValidator(as_list)]
    input_ranges: Annotated[tuple[Range, ...], BeforeValidator(as_list)] = ((-1.0, 1.0),)
    input_data_types: Annotated[tuple[ElementType, ...], BeforeValidator(as_list)] = ("float32",)
    input_data_formats: Annotated[tuple[DataFormat, ...], BeforeValidator(as_list)] = ("NCHW",)
    output_tensors: Annotated[tuple[Text, ...], BeforeValidator(as_list), AfterValidator(not_empty)]
    output_shapes: Annotated[tuple[Shape, ...], BeforeValidator(as_list)] = ()
    output_data_types: Annotated[tuple[ElementType, ...], BeforeValidator(as_list)] = ()
    output_data_formats: Annotated[tuple[DataFormat, ...], BeforeValidator(as_list)] = ("NCHW",)
    check_tensors: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    check_shapes: Annotated[tuple[Shape, ...], BeforeValidator(as_list)] = ()
    validation_inputs_data: Annotated[tuple[Location, ...], BeforeValidator(as_list)] = ()

    @field_validator(
        *("input_shapes", "input_ranges", "input_data_types", "input_data_formats", "validation_inputs_data"),
        *("output_shapes", "output_data_types", "output_data_formats", "check_shapes"),
    )
    @classmethod
    def _one_for_each_tensor(cls, values: tuple[Item, ...], info: ValidationInfo) -> tuple[Item, ...]:
        """Requires a value for each tensor; one type, format or range stands for all; optional lists may be empty."""
        assert info.field_name
        owner = f"{info.field_name.split('_')[0].replace('validation', 'input')}_tensors"
        count = len(info.data.get(owner, values))
        required = info.field_name == "input_shapes"
        single = info.field_name.endswith(("_ranges", "_types", "_formats"))
        if len(values) != count and not (single and len(values) == 1) and (values or required):
            hint = "; write a shape as 1,3,224,224" if info.field_name.endswith("_shapes") else ""
            raise ValueError(f"{len(values)} given for {count} {owner}{hint}")
        return values

    @field_validator("input_tensors", "output_tensors", "check_tensors")
    @classmethod
    def _distinct(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a tensor is named twice")
        return names

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs, each with its own shape, type, format and range."""
        count = len(self.input_tensors)
        columns = (self.input_data_types, self.input_data_formats, self.input_ranges)
        return tuple(map(Input, self.input_tensors, self.input_shapes, *(_spread(column, count) for column in columns)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs, each with its own shape and format."""
        count = len(self.output_tensors)
        shapes = self.output_shapes or (None,) * count
        formats = _spread(self.output_data_formats, count)
        types = _spread(self.output_data_types, count) if self.output_data_types else (None,) * count
        return tuple(map(Output, self.output_tensors, shapes, formats, types))


def _both_types(value: Any) -> Any:
    """Accepts `fp32`, which MACE writes for a CPU, where storage and arithmetic type cannot differ."""
    return "fp32_fp32" if value == "fp32" else value


class Model(YamlSection):
    """One model with the settings of its deployment."""

    not_yet: ClassVar = {
        "weight_file_path": "an ONNX file holds its weights",
        "weight_sha256_checksum": "an ONNX file holds its weights",
        "quantize": "models run in fp32 and fp16",
        "quantize_range_file": "models run in fp32 and fp16",
        "quantize_large_weights": "models run in fp32 and fp16",
        "quantize_schema": "models run in fp32 and fp16",
        "quantize_stat": "models run in fp32 and fp16",
        "change_concat_ranges": "models run in fp32 and fp16",
        "nnlib_graph_mode": "runtimes are cpu and gpu",
        "hexagon_api": "runtimes are cpu and gpu",
        "cl_mem_type": "images or buffers are chosen for each GPU family",
        "opencl_queue_window_size": "commands are queued once a run",
        "graph_optimize_options": "every pass runs; `farm convert --explain` shows what each did",
        "docker_image_tag": "no Docker image is needed",
        "dockerfile_path": "no Docker image is needed",
        "dockerfile_sha256_checksum": "no Docker image is needed",
    }

    platform: str
    model_file_path: Location
    model_sha256_checksum: Checksum | None = None
    subgraphs: Annotated[tuple[Subgraph, ...], AfterValidator(not_empty)]
    runtime: str
    data_type: Annotated[DataType, BeforeValidator(_both_types)] = "fp16_fp32"
    validation_threshold: dict[str, Similarity] = Field(default_factory=dict)
    backend: str = "onnxruntime"
    limit_opencl_kernel_time: bool = False
    obfuscate: bool = False
    winograd: int = 0

    @field_validator("platform")
    @classmethod
    def _known_platform(cls, value: str) -> str:
        if value != "onnx":
            raise ValueError(f"{value!r} is not supported yet; export the model to ONNX and write platform: onnx")
        return value

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, value: str) -> str:
        if value != "onnxruntime":
            raise ValueError(f"{value!r} is not supported yet; outputs are compared with those of onnxruntime")
        return value

    @field_validator("subgraphs")
    @classmethod
    def _only_one(cls, value: tuple[Subgraph, ...]) -> tuple[Subgraph, ...]:
        if len(value) > 1:
            raise ValueError("several subgraphs are not supported yet; write one model for each")
        return value

    @field_validator("runtime")
    @classmethod
    def _known_runtime(cls, value: str) -> str:
        if value not in RUNTIMES:
            if value in ("dsp", "hta", "hexagon", "apu", "cpu+dsp", "cpu+gpu+dsp", "cpu+gpu+dsp+apu"):
                raise ValueError(f"{value!r} is not supported yet; write cpu, gpu or cpu+gpu")
            raise ValueError(f"{value!r} is no runtime; write cpu, gpu or cpu+gpu")
        return value

    @field_validator("validation_threshold")
    @classmethod
    def _known_thresholds(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name.lower() not in get_args(Runtime):
                raise ValueError(f"{name!r} is not supported yet; thresholds are for CPU and GPU")
        return {name.lower(): threshold for name, threshold in value.items()}

    @field_validator("winograd")
    @classmethod
    def _known_winograd(cls, value: int) -> int:
        if value not in (0, 2, 4):
            raise ValueError(f"{value} is no output tile; write 0 (off), 2 or 4")
        return value

    @property
    def subgraph(self) -> Subgraph:
        """The only subgraph."""
        return self.subgraphs[0]

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """The runtimes on which the model is to run, each on its own."""
        return RUNTIMES[self.runtime]

    def data_type_on(self, runtime: Runtime) -> DataType:
        """Storage and arithmetic type: what the file says on a GPU, always fp32 on a CPU."""
        return self.data_type if runtime == "gpu" else "fp32_fp32"


class Deployment(YamlSection):
    """A whole deployment file."""

    not_yet: ClassVar = {
        "build_type": "write model_graph_format and model_data_format, each file or code",
        "embed_model_data": "write model_data_format: code",
        "linkshared": "farmrt is one executable and one static library",
    }

    library_name: SafeName
    target_abis: Abis
    target_socs: Annotated[tuple[SocKey, ...], BeforeValidator(split_text)] = ()
    model_graph_format: Form = "file"
    model_data_format: Form = "file"
    models: Annotated[dict[SafeName, Model], AfterValidator(not_empty)]
    _source: YamlSource = PrivateAttr()

    @field_validator("model_data_format")
    @classmethod
    def _weights_go_with_their_plan(cls, value: Form, info: ValidationInfo) -> Form:
        if value == "code" and info.data.get("model_graph_format") == "file":
            raise ValueError("weights as code need model_graph_format: code")
        return value

    @property
    def path(self) -> Path:
        """The file that was read; its folder is what relative paths in it start from."""
        return self._source.path

    def error(self, key_path: KeyPath, problem: str) -> ConfigError:
        """Makes the error `file:line: key: problem`, for a mistake that only a later stage can see."""
        return self._source.error(key_path, problem)


def load(path: Path) -> Deployment:
    """Reads and checks a deployment file; raises ConfigError with the line of the first mistake."""
    source = yaml_source.load(path)
    deployment = source.validate(Deployment)
    deployment._source = source
    return deployment


def _spread(values: tuple[Item, ...], count: int) -> tuple[Item, ...]:
    return values * count if len(values) == 1 else values
