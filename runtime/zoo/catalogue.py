"""Finds networks of the zoo by name or by URL (`zoo://NAME?width=0.25&size=64`), and builds them."""

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from onnx import ModelProto

from runtime.errors import ConfigError
from runtime.zoo import (
    bert_mini,
    efficientnet_lite0,
    inception_v3,
    llama_small,
    mobilenet_v1,
    mobilenet_v2,
    mobilenet_v3_large,
    resnet50,
    squeezenet_v11,
    vit_tiny,
)
from runtime.zoo.network import INPUT, Architecture, Layers, Network
from runtime.zoo.skeleton import Shapes
from runtime.zoo.transformer import Transformer

SCHEME = "zoo"
MAX_WIDTH = 4.0
MAX_SIZE = MAX_BATCH = 1024
MAX_CLASSES = 100_000
MAX_PARAMETERS = 500_000_000  # a protobuf message holds at most 2 GiB

# Name, network, what adds its layers, published and least size, published classes, paper.
_ARCHITECTURES: dict[str, Architecture[Any]] = {
    row[0]: Architecture(*row)
    for row in (
        ("mobilenet_v1", Network, mobilenet_v1.assemble, 224, 32, 1001, "arXiv:1704.04861"),
        ("mobilenet_v2", Network, mobilenet_v2.assemble, 224, 32, 1001, "arXiv:1801.04381"),
        ("squeezenet_v11", Network, squeezenet_v11.assemble, 227, 32, 1000, "arXiv:1602.07360"),
        ("resnet50", Network, resnet50.assemble, 224, 32, 1000, "arXiv:1512.03385"),
        ("inception_v3", Network, inception_v3.assemble, 299, 75, 1000, "arXiv:1512.00567"),
        ("mobilenet_v3_large", Network, mobilenet_v3_large.assemble, 224, 32, 1001, "arXiv:1905.02244"),
        ("efficientnet_lite0", Network, efficientnet_lite0.assemble, 224, 32, 1000, "arXiv:1905.11946"),
        ("vit_tiny", Transformer, vit_tiny.assemble, 224, 32, 1000, "arXiv:2012.12877"),
        ("bert_mini", Transformer, bert_mini.assemble, 128, 1, 2, "arXiv:1908.08962"),
        ("llama_small_prefill", Transformer, llama_small.assembler(decodes=False), 128, 2, 4096, "arXiv:2307.09288"),
        ("llama_small_decode", Transformer, llama_small.assembler(decodes=True), 512, 1, 4096, "arXiv:2307.09288"),
    )
}
_OPTIONS: dict[str, type[float] | type[int]] = {"width": float, "size": int, "classes": int, "seed": int, "batch": int}


@dataclasses.dataclass(frozen=True)
class Description:
    """A network's shape and cost; `macs` are the multiply-accumulates of one image or sequence."""

    name: str
    input_shape: tuple[int, ...]
    classes: int
    parameters: int
    macs: int
    paper: str


def names() -> list[str]:
    """Lists the names of the networks."""
    return list(_ARCHITECTURES)


def build(
    name: str,
    *,
    width: float = 1.0,
    size: int | None = None,
    classes: int | None = None,
    seed: int = 0,
    batch: int | None = None,
) -> ModelProto:
    """A network as ONNX: float32, input `input` (N, 3, size, size) in about -1..1, output `prob` (N, classes).

    Networks of text read numbers of words instead, int64, and their module says what else. `width` multiplies the
    channels; size and classes default to the published ones. Without `batch`, that of a transformer is 1, and other
    networks have it open. The same arguments give the same bytes. Raises ConfigError
    for a name that is not there or an argument out of range.
    """
    architecture, net, classes = _assemble(name, width, size, classes, batch)
    if seed < 0:
        raise ConfigError(f"{name}: seed: {seed} is negative, give 0 or more")
    skeleton = net.skeleton(name)
    doc = f"{name}, {architecture.paper}; width {width:g}; weights are random numbers from seed {seed}, not trained"
    return skeleton.model(net.values(skeleton, seed), doc)


def describe(name: str, *, width: float = 1.0, size: int | None = None, classes: int | None = None) -> Description:
    """What `build` with these arguments would give, without building it."""
    architecture, net, classes = _assemble(name, width, size, classes, None)
    shape = tuple(extent if isinstance(extent, int) else 1 for extent in net.inputs[INPUT])
    return Description(name, shape, classes, net.parameter_count(), net.macs, architecture.paper)


def from_url(url: str) -> ModelProto:
    """The network that `zoo://NAME?width=0.25&size=64&classes=10&seed=1&batch=8` names; options may be absent."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"{url}: {error}") from None
    if parts.scheme != SCHEME or not parts.netloc or parts.path or parts.fragment:
        raise ConfigError(f"{url}: not a zoo URL, write zoo://NAME or zoo://NAME?width=0.25&size=64")
    options: dict[str, Any] = {}
    for key, text in parse_qsl(parts.query, keep_blank_values=True):
        if key in options:
            raise ConfigError(f"{url}: {key} is given twice")
        options[key] = _option(url, key, text)
    try:
        return build(parts.netloc, **options)
    except ConfigError as error:
        raise ConfigError(f"{url}: {error}") from error


def _option(url: str, key: str, text: str) -> float | int:
    if key not in _OPTIONS:
        raise ConfigError(f"{url}: unknown option '{key}', {_suggestion(key, _OPTIONS)}")
    try:
        return _OPTIONS[key](text)
    except ValueError:
        kind = "a number" if _OPTIONS[key] is float else "a whole number"
        raise ConfigError(f"{url}: {key}: '{text}' is not {kind}") from None


def _assemble(
    name: str, width: float, size: int | None, classes: int | None, batch: int | None
) -> tuple[Architecture[Any], Layers, int]:
    if name not in _ARCHITECTURES:
        raise ConfigError(f"unknown zoo model '{name}', {_suggestion(name, _ARCHITECTURES)}")
    architecture = _ARCHITECTURES[name]
    size = architecture.size if size is None else size
    classes = architecture.classes if classes is None else classes
    if not 0 < width <= MAX_WIDTH:
        raise ConfigError(f"{name}: width: {width:g} is out of range, give more than 0 and at most {MAX_WIDTH:g}")
    _check_range(name, "size", size, architecture.min_size, MAX_SIZE)
    _check_range(name, "classes", classes, 2, MAX_CLASSES)
    if batch is not None:
        _check_range(name, "batch", batch, 1, MAX_BATCH)
    net: Layers = architecture.network(size)
    net.batch = batch or 1
    architecture.assemble(net, width, classes)
    if batch is not None:
        net.inputs, net.outputs = (_of_batch(shapes, batch) for shapes in (net.inputs, net.outputs))
    if net.parameter_count() > MAX_PARAMETERS:
        problem = f"{net.parameter_count()} parameters do not fit into an ONNX file"
        raise ConfigError(f"{name}: {problem}, reduce width or classes")
    return architecture, net, classes


def _of_batch(shapes: Shapes, batch: int) -> dict[str, tuple[int | str, ...]]:
    """Shapes whose first axis is the batch."""
    return {name: (batch, *shape[1:]) for name, shape in shapes.items()}


def _check_range(name: str, option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{name}: {option}: {value} is out of range, give {low} to {high}")


def _suggestion(word: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(choices)}"
