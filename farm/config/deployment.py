"""Reads a deployment file: models, shapes, runtimes, ABIs and SoCs, under the keys that MACE users know.

    library_name: mobile_squeeze
    target_abis: [host]                     # also as text: host, arm64-v8a
    target_socs: [sdm845]                   # optional: tune for these only; all, or random: one unit, any
    model_graph_format: code                # optional: plans also as C source and static library; default: file
    model_data_format: code                 # optional: their weights too
    linkshared: 1                           # optional: beside that code libfarmrt.so too; default: libfarmrt.a alone
    custom_operators: [my_ops.py]           # optional: modules of operators of your own; also in a model, for it alone
    models:
      squeezenet_v11:                       # the model's name: letters, digits, `_`, `-` and `.`
        platform: onnx                      # or tensorflow, keras, tflite, pytorch (docs/models.md)
        model_file_path: zoo://squeezenet_v11?width=1.0&size=227   # or a path beside this file, or http(s)://
        model_sha256_checksum: 625c95...    # optional
        # platform: caffe has its network in model_file_path (.prototxt) and its weights in weight_file_path
        # (.caffemodel), with a weight_sha256_checksum of their own
        subgraphs:                          # optional, as each of these keys: what is absent is as the model has it
          - input_tensors: [data]
            input_shapes: ["1,3,227,227"]   # also as a list of lists
            input_data_types: [float32]
            output_tensors: [prob]          # further subgraphs: each is a model of its own, farm/config/subgraphs.py
        runtime: cpu+gpu                    # cpu, gpu or both, each validated and measured on its own
        data_type: fp16_fp32                # storage_arithmetic; a CPU has weights alone in half, computes in float.
                                            # Of several the first runs until tuning has chosen for a GPU
        round_limit: 300                    # optional: seconds that a round may go without progress
        limit_opencl_kernel_time: 1         # split launches of more than 1 ms, for a GPU that also draws the screen
        num_threads: 4                      # these four, optional: see farm/config/execution.py
        cpu_affinity_policy: big_only
        gpu_perf_hint: high
        gpu_priority_hint: low

One format, type or range given for several tensors counts for all of them. A tensor's format says how its data and its
shape lie in this file and in the application: NCHW (the own order of ONNX, Caffe and PyTorch), NHWC (that of
TensorFlow, Keras and TFLite) or NONE (no image: taken as it is); where it is not the model's own, the runtime turns it
at the boundary. Without one, a shape of four sizes has the order in which it fits an ONNX model, and the format is
asked for where both fit; models of other platforms have their own, and so has a shape that the file leaves out. A key
that does not work yet is refused, never ignored (docs/deployment.md has all).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator

from farm.config import platforms, subgraphs, yaml_source
from farm.config.execution import Execution, ExecutionKeys
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
from farm.config.platforms import PLATFORMS, DataFormat
from farm.config.suggestion import suggestion
from farm.config.yaml_source import KeyPath, WrittenSource, YamlSection, YamlSource
from runtime.errors import ConfigError
from runtime.types import Winograd

ElementType = Literal[
    "float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"
]
ELEMENT_TYPES: tuple[str, ...] = get_args(ElementType)
Form = Literal["file", "code"]
DataType = Literal["fp16_fp32", "fp32_fp32", "fp16_fp16"]
Runtime = Literal["cpu", "gpu"]
FARMRT = "farmrt"  # farm's own engine; others are adapters, see farm.engines
ONNX_ORDER: DataFormat = "NCHW"
UNKNOWN_TYPE: ElementType = "float32"  # of a tensor within the model, whose type nobody says
FLOATS = "models run in fp32 and fp16"

# MACE's further runtimes, and an engine that reaches each of them; a threshold for one has no effect here.
_QNN, _LITERT_QNN = "onnxruntime:provider=QNN", "litert:delegate=libQnnTFLiteDelegate.so"
ELSEWHERE = {
    "hexagon": f"{_QNN} or {_LITERT_QNN}",
    "dsp": f"{_QNN} or {_LITERT_QNN}",
    "hta": f"{_QNN} or {_LITERT_QNN}",
    "apu": "litert:delegate=PATH, the library of NeuroPilot's delegate",
}
ALL, RANDOM = "all", "random"  # MACE's words for target_socs

RUNTIMES: dict[str, tuple[Runtime, ...]] = {
    "cpu": ("cpu",),
    "gpu": ("gpu",),
    "cpu+gpu": ("cpu", "gpu"),
    "cpu_gpu": ("cpu", "gpu"),
}
GPU_OF_BOTH = "gpu of cpu+gpu"  # of a model for both, the GPU alone: in no file, `--runtime gpu` makes it

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Input:
    """An input as the application sees it: `shape` and data lie in `data_format`; test data fill `value_range`."""

    name: str
    shape: tuple[int, ...]
    data_type: ElementType
    data_format: DataFormat
    value_range: tuple[float, float]
    has_format: bool = True  # else it is inferred, see farm.model.data_formats
    has_type: bool = True  # else it is the model's, see farm.model.own_values


@dataclasses.dataclass(frozen=True)
class Output:
    """An output as the application sees it; no `shape` or `data_type` means the one that the model has."""

    name: str
    shape: tuple[int, ...] | None
    data_format: DataFormat
    data_type: ElementType | None = None
    has_format: bool = True  # else it is inferred, see farm.model.data_formats


class Subgraph(YamlSection):
    """The model's inputs and outputs, and the data to check them with.

    Without names or shapes it is open: `farm.model.own_values` completes it by what the model has.
    """

    not_yet: ClassVar = {
        "validation_outputs_data": "outputs are compared with those that the backend computes",
        "accuracy_validation_script": "outputs are compared with those that the backend computes",
    }
    refused: ClassVar = {subgraphs.NAME: "it is for one of several subgraphs; leave it out"}

    input_tensors: Annotated[tuple[Text, ...], BeforeValidator(as_list), AfterValidator(not_empty)] = ()
    input_shapes: Annotated[tuple[Shape, ...], BeforeValidator(as_list)] = ()
    input_ranges: Annotated[tuple[Range, ...], BeforeValidator(as_list)] = ((-1.0, 1.0),)
    input_data_types: Annotated[tuple[ElementType, ...], BeforeValidator(as_list)] = ()
    input_data_formats: Annotated[tuple[DataFormat, ...], BeforeValidator(as_list)] = ()
    output_tensors: Annotated[tuple[Text, ...], BeforeValidator(as_list), AfterValidator(not_empty)] = ()
    output_shapes: Annotated[tuple[Shape, ...], BeforeValidator(as_list)] = ()
    output_data_types: Annotated[tuple[ElementType, ...], BeforeValidator(as_list)] = ()
    output_data_formats: Annotated[tuple[DataFormat, ...], BeforeValidator(as_list)] = ()
    check_tensors: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    check_shapes: Annotated[tuple[Shape, ...], BeforeValidator(as_list)] = ()
    validation_inputs_data: Annotated[tuple[Location, ...], BeforeValidator(as_list)] = ()

    @field_validator(
        *("input_shapes", "input_ranges", "input_data_types", "input_data_formats", "validation_inputs_data"),
        *("output_shapes", "output_data_types", "output_data_formats", "check_shapes"),
    )
    @classmethod
    def _one_for_each_tensor(cls, values: tuple[Item, ...], info: ValidationInfo) -> tuple[Item, ...]:
        """Requires a value for each tensor that is named; one type, format or range stands for all."""
        assert info.field_name
        owner = f"{info.field_name.split('_')[0].replace('validation', 'input')}_tensors"
        count = len(info.data.get(owner, ())) or len(values)
        single = info.field_name.endswith(("_ranges", "_types", "_formats"))
        if values and len(values) != count and not (single and len(values) == 1):
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
    def is_open(self) -> bool:
        """Whether it leaves names or shapes to the model."""
        return not (self.input_tensors and self.input_shapes and self.output_tensors)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of a subgraph that is not open, each with its own shape, type, format and range."""
        count = len(self.input_tensors)
        columns = (
            self.input_data_types or (UNKNOWN_TYPE,),
            self.input_data_formats or (ONNX_ORDER,),
            self.input_ranges,
        )
        spread = (_spread(column, count) for column in columns)
        known = ((bool(given),) * count for given in (self.input_data_formats, self.input_data_types))
        return tuple(map(Input, self.input_tensors, self.input_shapes, *spread, *known))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The outputs of a subgraph that is not open, each with its own shape and format."""
        count = len(self.output_tensors)
        shapes = self.output_shapes or (None,) * count
        formats = _spread(self.output_data_formats or (ONNX_ORDER,), count)
        types = _spread(self.output_data_types, count) if self.output_data_types else (None,) * count
        known = (bool(self.output_data_formats),) * count
        return tuple(map(Output, self.output_tensors, shapes, formats, types, known))


def _only_off(what: str) -> AfterValidator:
    """Accepts 0, which is how MACE writes that something is not wanted."""

    def check(value: bool) -> bool:
        if value:
            raise ValueError(f"not supported yet; {what}, so write 0 or leave the key out")
        return value

    return AfterValidator(check)


def _data_types(value: Any) -> Any:
    """One data type or several, as a list or a text with commas.

    Accepts `fp32`, which MACE writes for a CPU, where storage and arithmetic type cannot differ.
    """
    values = split_text(value)
    if not isinstance(values, list):
        return values
    types = ["fp32_fp32" if each == "fp32" else each for each in values]
    if unknown := [each for each in types if each not in get_args(DataType)]:
        raise ValueError(f"'fp16_fp32', 'fp32_fp32' or 'fp16_fp16' is expected, not {unknown[0]!r}")
    return types


class Model(ExecutionKeys):
    """One model with the settings of its deployment."""

    not_yet: ClassVar = {
        "quantize_schema": "activations are quantised unsigned with a zero point, weights signed, so leave it out",
        "quantize_stat": "`farm quantize MODEL.yml --data DIR` finds the ranges, so leave it out",
        "nnlib_graph_mode": "runtimes are cpu and gpu, so leave it out",
        "hexagon_api": "runtimes are cpu and gpu, so leave it out",
        "cl_mem_type": "images or buffers are chosen for each GPU family",
        "graph_optimize_options": "every pass runs; `farm convert --explain` shows what each did",
        "docker_image_tag": "no Docker image is needed",
        "dockerfile_path": "no Docker image is needed",
        "dockerfile_sha256_checksum": "no Docker image is needed",
    }

    platform: str
    model_file_path: Location
    model_sha256_checksum: Checksum | None = None
    weight_file_path: Location | None = None
    weight_sha256_checksum: Checksum | None = None
    subgraphs: Annotated[tuple[Subgraph, ...], AfterValidator(not_empty)] = (Subgraph(),)
    engine: Annotated[tuple[Text, ...], BeforeValidator(split_text), AfterValidator(not_empty)] = (FARMRT,)
    runtime: str  # behind the engine, which may reach another one
    data_type: Annotated[tuple[DataType, ...], BeforeValidator(_data_types), AfterValidator(not_empty)] = ("fp16_fp32",)
    validation_threshold: dict[str, Similarity] = Field(default_factory=dict)
    backend: str = ""
    limit_opencl_kernel_time: bool = False
    obfuscate: bool = False
    winograd: Winograd = "default"
    activation_limit_mb: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    activation_slowdown: Annotated[float, Field(ge=0, le=1)] | None = None
    quantize_range_file: Location | None = None
    quantize: bool = False
    quantize_large_weights: bool = False
    quantize_within: Annotated[float, Field(gt=0, lt=1)] | None = None
    quantize_samples: Location | None = None
    change_concat_ranges: Annotated[bool, _only_off(FLOATS)] = False
    round_limit: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    custom_operators: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()

    @field_validator("platform")
    @classmethod
    def _known_platform(cls, value: str) -> str:
        return platforms.known_platform(value)

    @field_validator("weight_file_path", "weight_sha256_checksum")
    @classmethod
    def _weights_have_a_file(cls, value: str | None, info: ValidationInfo) -> str | None:
        platform = info.data.get("platform", "caffe")
        if not PLATFORMS[platform].has_weight_file:
            raise ValueError(f"the file of platform {platform} holds its weights; leave it out")
        if info.field_name == "weight_sha256_checksum" and info.data.get("weight_file_path", "") is None:
            raise ValueError("there is no weight_file_path that it could be of")
        return value

    @field_validator("quantize")
    @classmethod
    def _ranges_are_known(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("quantize_range_file") is None:
            how = "`farm quantize MODEL.yml --data DIR` writes one; a model that is quantised already needs neither"
            raise ValueError(f"quantize_range_file has to name a file of ranges: {how}")
        return value

    @field_validator("quantize_samples")
    @classmethod
    def _samples_are_for_a_limit(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("quantize_within") is None:
            raise ValueError("quantize_within says how much noise is allowed, 0.01 for 1 %; write it too")
        return value

    @field_validator("quantize_within")
    @classmethod
    def _quantized_once(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and (info.data.get("quantize") or info.data.get("quantize_large_weights")):
            raise ValueError("quantize and quantize_large_weights choose the layers already; write 0 there")
        return value

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, value: str, info: ValidationInfo) -> str:
        return platforms.known_backend(value, info.data.get("platform"))

    @field_validator("runtime")
    @classmethod
    def _known_runtime(cls, value: str, info: ValidationInfo) -> str:
        if value not in RUNTIMES:
            reaches = all(":" in engine for engine in info.data.get("engine", (FARMRT,)))  # by a provider or delegate
            for part in value.split("+"):
                if part in ELSEWHERE and reaches:
                    return "cpu"
                if part in ELSEWHERE:
                    how = f"an engine reaches it: runtime: cpu, engine: {ELSEWHERE[part]} (docs/engines.md)"
                    raise ValueError(f"{value!r} is not supported yet by farmrt, which has cpu, gpu and cpu+gpu; {how}")
            raise ValueError(f"{value!r} is no runtime; write cpu, gpu or cpu+gpu")
        return value

    @field_validator("data_type")
    @classmethod
    def _distinct_types(cls, value: tuple[DataType, ...]) -> tuple[DataType, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a data type is named twice")
        return value

    @field_validator("validation_threshold")
    @classmethod
    def _known_thresholds(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name.lower() not in (*get_args(Runtime), *ELSEWHERE):
                raise ValueError(f"{name!r} is no runtime{suggestion(name.upper(), ('CPU', 'GPU', 'HEXAGON'))}")
        return {name.lower(): threshold for name, threshold in value.items()}

    @field_validator("winograd", mode="before")
    @classmethod
    def _known_winograd(cls, value: Any) -> Any:
        known = {str(tile): tile for tile in get_args(Winograd)}
        if str(value) not in known:
            raise ValueError(
                f"{value} is no output tile; write 0 (off), 2, 4, auto (the best of each layer) or default"
            )
        return known[str(value)]

    @property
    def subgraph(self) -> Subgraph:
        """The only subgraph; tensors whose format the file does not say have the platform's, except ONNX's and Caffe's.

        What order an ONNX file has depends on where it was exported, and MACE writes shapes of Caffe's networks in its
        own: farm.model.data_formats infers it.
        """
        subgraph, own = self.subgraphs[0], (PLATFORMS[self.platform].own_format,)
        if self.platform in ("onnx", "caffe"):
            return subgraph
        formats = {
            "input_data_formats": subgraph.input_data_formats or own,
            "output_data_formats": subgraph.output_data_formats or own,
        }
        return subgraph.model_copy(update=formats)

    @property
    def oracle(self) -> str:
        """What computes the reference outputs: the file's backend, else the platform's own."""
        return self.backend or PLATFORMS[self.platform].backends[0]

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """The runtimes on which the model is to run, each on its own."""
        return ("gpu",) if self.runtime == GPU_OF_BOTH else RUNTIMES[self.runtime]

    @property
    def falls_back(self) -> bool:
        """Whether the CPU runs what the GPU has no kernel for."""
        return self.runtime == GPU_OF_BOTH or "cpu" in self.runtimes

    def on_runtimes(self, names: Sequence[str]) -> Model:
        """The same on these runtimes; raises ConfigError for what is none. A GPU falls back to the CPU as before."""
        runtime = next((words for words, each in RUNTIMES.items() if set(each) == set(names)), None)
        if runtime is None:
            raise ConfigError(f"{' and '.join(map(repr, names))}: a runtime is cpu or gpu")
        of_both = runtime == "gpu" and self.falls_back and "gpu" in self.runtimes
        return self.model_copy(update={"runtime": GPU_OF_BOTH if of_both else runtime})

    def with_execution(self, execution: Execution) -> Model:
        """The same, executed so; what is not given there stays."""
        return self.model_copy(update=execution.given)

    @property
    def is_quantized_here(self) -> bool:
        """Whether a key makes integers of what its source computes in floats."""
        return self.quantize or self.quantize_large_weights or self.quantize_within is not None

    def data_types_on(self, runtime: Runtime) -> tuple[DataType, ...]:
        """Storage and arithmetic types that are allowed: those written, else a CPU computes in float."""
        is_written = runtime == "gpu" or "data_type" in self.model_fields_set
        return self.data_type if is_written else ("fp32_fp32",)

    def data_type_on(self, runtime: Runtime) -> DataType:
        """The first that is allowed: what runs where tuning has chosen no other."""
        return self.data_types_on(runtime)[0]


class Deployment(YamlSection):
    """A whole deployment file."""

    not_yet: ClassVar = {
        "build_type": "write model_graph_format and model_data_format, each file or code",
        "embed_model_data": "write model_data_format: code",
    }

    library_name: SafeName
    target_abis: Abis
    target_socs: Annotated[tuple[SocKey, ...], BeforeValidator(split_text)] = ()
    model_graph_format: Form = "file"
    model_data_format: Form = "file"
    linkshared: bool = False
    custom_operators: Annotated[tuple[Text, ...], BeforeValidator(as_list)] = ()
    models: Annotated[dict[SafeName, Model], AfterValidator(not_empty)]
    _source: YamlSource = PrivateAttr()
    _trusted: bool = PrivateAttr(default=False)

    @field_validator("target_socs")
    @classmethod
    def _words_stand_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """`all` and `random` are no SoCs; see takes_one."""
        if not {ALL, RANDOM} & set(value):
            return value
        if len(value) > 1:
            raise ValueError(f"write {ALL}, {RANDOM} or names of SoCs, not both")
        return ()

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

    def siblings(self, name: str) -> list[str]:
        """The models that are subgraphs of the same model of the file, in its order; one alone is its own sibling."""
        whole = {each: self._source.written(("models", each))[1] for each in self.models}
        return [each for each in self.models if whole[each] == whole[name]]

    def on_runtimes(self, names: Sequence[str]) -> Deployment:
        """The same with all models on these runtimes; raises ConfigError for what is none."""
        models = {name: model.on_runtimes(names) for name, model in self.models.items()}
        return self.model_copy(update={"models": models})

    @property
    def takes_one(self) -> bool:
        """Whether it is for any one unit, whose SoC is left to chance: `target_socs: random`."""
        words = split_text(self.data.get("target_socs")) or ()
        return [word.lower() for word in words] == [RANDOM]

    @property
    def notes(self) -> list[str]:
        """What the file says without effect, a line each: thresholds for runtimes that a model does not use."""
        found = (
            str(self.error(("models", name, "validation_threshold", key), f"has no effect, it runs on {used}"))
            for name, model in self.models.items()
            for key in self.data["models"][name].get("validation_threshold") or ()
            if key.lower() not in model.runtimes
            for used in [" and ".join(model.runtimes)]
        )
        return list(dict.fromkeys(found))

    @property
    def data(self) -> Any:
        """What the file says, as plain data (text, None, lists, dictionaries)."""
        return self._source.data

    def file_in(self, folder: Path) -> Path:
        """The deployment file; what was made of a model file is written into the folder."""
        if not isinstance(self._source, WrittenSource):
            return self.path
        paths = ("model_file_path", "weight_file_path", "quantize_range_file", "quantize_samples")
        models = {
            name: {
                key: str(self.path.parent.absolute() / value) if key in paths else value for key, value in keys.items()
            }
            for name, keys in self.data["models"].items()
        }
        path = folder / "model.yml"
        path.write_text(yaml.safe_dump({**self.data, "models": models}, sort_keys=False))
        return path

    @property
    def trusts_models(self) -> bool:
        """Whether the user trusts the models' authors, so that models may hold code; the file itself cannot say so."""
        return self._trusted

    def error(self, key_path: KeyPath, problem: str) -> ConfigError:
        """Makes the error `file:line: key: problem`, for a mistake that only a later stage can see."""
        return self._source.error(key_path, problem)


def load(path: Path, trust_models: bool = False) -> Deployment:
    """Reads and checks a deployment file; raises ConfigError with the line of the first mistake.

    farm.model.deployments takes model files too.
    """
    return of_source(yaml_source.load(path), trust_models)


def of_source(source: YamlSource, trust_models: bool = False) -> Deployment:
    """The same of YAML that has been read."""
    source = subgraphs.with_single_subgraphs(source)
    deployment = source.validate(Deployment)
    deployment._source, deployment._trusted = source, trust_models
    return deployment


def _spread(values: tuple[Item, ...], count: int) -> tuple[Item, ...]:
    return values * count if len(values) == 1 else values
