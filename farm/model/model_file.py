"""Writes the deployment file of a model file: what `farm run net.onnx` runs, and what `farm init` keeps."""

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from farm.config import deployment
from farm.config.fields import MOST_NAME
from farm.config.given_model import ONLY_INPUT, GivenModel, Shape
from farm.config.platforms import PLATFORMS
from farm.config.suggestion import suggestion
from farm.config.yaml_source import WrittenSource
from farm.model.fetch import Fetcher
from farm.model.own_values import IMAGE_RANK, of_one_sample, own_tensors, question, usual_shape
from farm.safe_text import one_line
from runtime.errors import ConfigError
from runtime.frameworks.model_tensors import ModelTensor, ModelTensors

CAFFEMODEL = ".caffemodel"
LONGEST_SUFFIX = 60
RANGES = {"uint8": "0,255", "int8": "-128,127"}  # of test data, by element type
RANGE = "-1,1"
UNKNOWN_TYPE = "float32"

Shapes = Mapping[str, Shape]


def deployment_text(given: GivenModel, platform: str, folder: Path) -> str:
    """The deployment file of a model file, with comments; a model for each shape of a sweep.

    The paths in it start from `folder`, where the file is to lie.

    Raises:
        ConfigError: a shape is missing, or not one that the model may have; weights or a package are missing.
        ModelError: the model cannot be read.
    """
    weights = _weights(given) if PLATFORMS[platform].has_weight_file else given.weights
    if weights and not PLATFORMS[platform].has_weight_file:
        raise ConfigError(f"{given.path}: --weights: the file of platform {platform} holds its weights; leave it out")
    if not str(given.path.absolute()).isprintable():
        raise ConfigError(f"{one_line(str(given.path))}: a name with characters that cannot be printed; rename it")
    name = library_name(given.path.absolute())
    head = _HEAD.format(file=one_line(given.path.name), name=_quoted(name))
    files = _files(given.path, weights, folder)
    bare = f"{head}{_model(name, platform, _files(given.path, weights, given.path.parent))}{_RUNTIME}"
    own = _own_tensors(given, name, bare)
    variants = _variants(given, own)
    names = [name] if len(variants) == 1 else _names(name, variants)
    models = (
        f"{_model(each, platform, files)}{_subgraph(platform, own, shapes)}{_RUNTIME}"
        for each, shapes in zip(names, variants, strict=True)
    )
    return head + "".join(models)


def library_name(path: Path) -> str:
    """A name for the files of a model, made of that of its own: plain letters, digits, `_`, `-` and `.`."""
    plain = unicodedata.normalize("NFKD", path.name if path.is_dir() else path.stem).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", plain).lstrip(".-")[: MOST_NAME - LONGEST_SUFFIX].strip("_") or "model"


_HEAD = """\
# Made of {file} by `farm init`; docs/deployment.md has all keys.
library_name: {name}  # names the folder below build/
target_abis: [host]  # where it runs: arm64-v8a and armeabi-v7a are phones, arm64 and armhf boards
models:
"""
_RUNTIME = """\
    runtime: cpu+gpu  # each on its own; what has no kernel for the GPU runs on the CPU. Or cpu, or gpu
    data_type: fp32_fp32  # fp16_fp32 keeps half floats in memory (a CPU: weights); fp16_fp16 computes in them
"""


def _model(name: str, platform: str, files: Mapping[str, str]) -> str:
    paths = "".join(f"    {key}: {_quoted(location)}\n" for key, location in files.items())
    return f"  {_quoted(name)}:\n    platform: {platform}\n{paths}"


def _files(path: Path, weights: Path | None, folder: Path) -> dict[str, str]:
    files = {"model_file_path": path, **({"weight_file_path": weights} if weights else {})}
    return {key: os.path.relpath(file, folder) for key, file in files.items()}


def _subgraph(platform: str, own: ModelTensors, shapes: Shapes) -> str:
    inputs, types = own.inputs, [tensor.element_type or UNKNOWN_TYPE for tensor in own.inputs]
    image = "NONE" if platform == "onnx" else PLATFORMS[platform].own_format
    formats = [image if len(shapes[tensor.name]) == IMAGE_RANK else "NONE" for tensor in inputs]
    ranges = [RANGES.get(element, RANGE) for element in types]
    open_ones = ", ".join(tensor.text for tensor in inputs if tensor.is_open)
    lines = (
        ("input_tensors", _list(_quoted(tensor.name) for tensor in inputs), ""),
        ("input_shapes", _list(map(_shape, (shapes[tensor.name] for tensor in inputs))), one_line(open_ones)),
        ("input_data_types", _list(types), ""),
        ("input_data_formats", _list(formats), "NHWC or NCHW: images in this order; NONE: as the model has it"),
        (
            "input_ranges",
            _list(map(json.dumps, ranges)),
            "of test data; or validation_inputs_data: [FILE.npy]",
        ),
        ("output_tensors", _list(_quoted(tensor.name) for tensor in own.outputs), ""),
    )
    written = [f"{key}: {value}{f'  # {comment}' if comment else ''}" for key, value, comment in lines]
    lines_of_it = "\n        ".join(written)
    return f"    subgraphs:  # of several, each is a plan and a row of its own\n      - {lines_of_it}\n"


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(values)}]"


def _shape(shape: Shape) -> str:
    return f'"{",".join(map(str, shape))}"' if shape else "[]"


def _quoted(text: str) -> str:
    """As YAML reads it back, whatever characters it holds."""
    is_plain = re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_./+-]*", text) and text != "null"
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _weights(given: GivenModel) -> Path:
    """The weights of a Caffe network: those that are named, else those beside it under its name."""
    found = given.weights or given.path.with_suffix(CAFFEMODEL)
    if found.is_file():
        return found
    if given.weights:
        raise ConfigError(f"--weights {found}: no such file")
    there = sorted(path.name for path in given.path.parent.glob(f"*{CAFFEMODEL}"))
    others = f" (there is {', '.join(there)})" if there else ""
    raise ConfigError(f"{given.path}: its weights are not beside it as {found.name}{others}; say --weights FILE")


def _own_tensors(given: GivenModel, name: str, text: str) -> ModelTensors:
    """What the model declares; `text` is a deployment file that says no more than where it is."""
    source = deployment.of_source(WrittenSource(given.path, text), given.trusted)
    own = own_tensors(source, name, Fetcher(source))
    for kind, tensors in (("inputs", own.inputs), ("outputs", own.outputs)):
        if not tensors:
            raise ConfigError(f"{given.path}: the model has no {kind}; farm runs models with at least one")
    for tensor in own.inputs:
        if tensor.element_type not in ("", *deployment.ELEMENT_TYPES):
            known = ", ".join(deployment.ELEMENT_TYPES)
            raise ConfigError(f"{given.path}: input {tensor.name!r} holds {tensor.element_type}; farm runs {known}")
    return own


def _variants(given: GivenModel, own: ModelTensors) -> list[Shapes]:
    """The shapes of all inputs, once for each step of a sweep: an input with a single shape has it in all of them."""
    sweeps = _sweeps(given, own)
    longest = max(map(len, sweeps.values()), default=1)
    for name, shapes in sweeps.items():
        if len(shapes) not in (1, longest):
            raise ConfigError(
                f"{given.path}: --shape: {len(shapes)} shapes of {name!r}, {longest} of another; give one or as many"
            )
    steps = ({name: shapes[min(at, len(shapes) - 1)] for name, shapes in sweeps.items()} for at in range(longest))
    return [_filled(given, own, step) for step in steps]


def _sweeps(given: GivenModel, own: ModelTensors) -> dict[str, list[Shape]]:
    """The shapes of each input, as they were given."""
    tensors = {tensor.name: tensor for tensor in own.inputs}
    sweeps: dict[str, list[Shape]] = {}
    for name, shape in given.shapes:
        if name == ONLY_INPUT and len(tensors) == 1:
            name = next(iter(tensors))
        option = f"{given.path}: --shape {name}{'=' if name else ''}{','.join(map(str, shape))}"
        if name == ONLY_INPUT:
            raise ConfigError(f"{option}: which of {', '.join(tensors)}? write INPUT=SIZES")
        if name not in tensors:
            raise ConfigError(f"{option}: no input {name!r}{suggestion(name, list(tensors))}")
        if not tensors[name].admits(shape):
            raise ConfigError(f"{option}: input {name!r} is {tensors[name].text}")
        if shape in sweeps.setdefault(name, []):
            raise ConfigError(f"{option}: given twice")
        sweeps[name].append(shape)
    return sweeps


def _filled(given: GivenModel, own: ModelTensors, shapes: Shapes) -> Shapes:
    """These shapes, and those of the other inputs: sizes of one name are one size, and samples one."""
    sizes = dict(_named_sizes(own.inputs, shapes))
    tensors = [_with_sizes(tensor, sizes) for tensor in own.inputs if tensor.name not in shapes]
    if open_ones := [tensor for tensor in tensors if of_one_sample(tensor).is_open]:
        asked = " ".join(f"--shape {_word(tensor)}" for tensor in open_ones)
        raise ConfigError(f"{given.path}: {question(open_ones)} {given.asking.format(asked)}")
    return {**shapes, **{tensor.name: of_one_sample(tensor).fixed_shape for tensor in tensors}}


def _word(tensor: ModelTensor) -> str:
    """`image=1,3,224,224`, in quotes where a shell would take it apart."""
    word = f"{tensor.name}={usual_shape(tensor)}"
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else f"'{word}'"


def _named_sizes(tensors: Sequence[ModelTensor], shapes: Shapes) -> Iterator[tuple[str, int]]:
    for tensor in tensors:
        for size, given in zip(tensor.shape or (), shapes.get(tensor.name, ()), strict=False):
            if isinstance(size, str) and size:
                yield size, given


def _with_sizes(tensor: ModelTensor, sizes: Mapping[str, int]) -> ModelTensor:
    if tensor.shape is None:
        return tensor
    shape = tuple(sizes.get(size, size) if isinstance(size, str) else size for size in tensor.shape)
    return ModelTensor(tensor.name, shape, tensor.element_type)


def _names(name: str, variants: Sequence[Shapes]) -> list[str]:
    """A name for each step of a sweep: with the shapes that it varies, `net_1x3x224x224`; else with its number."""
    varied = [key for key in variants[0] if len({variant[key] for variant in variants}) > 1]
    suffixes = ["_".join("x".join(map(str, variant[key])) for key in varied) for variant in variants]
    if max(map(len, suffixes)) >= LONGEST_SUFFIX:
        suffixes = [str(number) for number in range(1, len(variants) + 1)]
    return [f"{name}_{suffix}" for suffix in suffixes]
