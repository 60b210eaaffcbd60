"""Attention between tensors of eight bits as one step of a CPU: both products, and what is rounded between them."""

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from runtime.families.attention.block_kernels import QUANTIZED_ATTENTION
from runtime.families.elementwise.quantized_lowering import nearest_bytes
from runtime.graph import Array, Graph, Node
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import IMAGE_RANK, Builder
from runtime.lowering.value import Steps, Value, byte_bounds
from runtime.plan.plan import ProfileInfo
from runtime.semantics.generic import row_major_strides
from runtime.semantics.quantization import EIGHT_BITS
from runtime.types import ElementType, Storage

Shape = tuple[int, ...]
_EXTENTS = ("batch", "heads", "queries", "keys", "depth", "values")
_MOST_KEYS = 32768  # of which sums fit 31 bits


@dataclasses.dataclass(frozen=True)
class Rounding:
    """Steps to which scores are rounded on their way.

    Attributes:
        product: of what both operands make, times the factor.
        table: the bytes of scores by those of products, where they are others.
        scores: what the softmax is of.
    """

    product: Steps
    table: Array | None
    factor: float
    scores: Steps


class _Links:
    """Which node writes and which nodes read each tensor of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._writers = {name: node for node in graph.nodes for name in node.outputs}
        self._readers = Counter(name for node in graph.nodes for name in node.inputs)
        self._readers.update(graph.outputs)
        self._reader = {name: node for node in graph.nodes for name in node.inputs}

    def before(self, tensor: str, *ops: str) -> Node | None:
        """The node, if it is one of these operators, that writes a tensor of which only one node knows."""
        node = self._writers.get(tensor)
        return node if node is not None and node.op in ops and self._readers[tensor] == 1 else None

    def behind(self, tensor: str, op: str) -> Node | None:
        """The only node that reads a tensor, if it is this operator."""
        node = self._reader.get(tensor)
        return node if node is not None and node.op == op and self._readers[tensor] == 1 else None


def fuse_attention_in_bytes(graph: Graph, kept: Collection[str], block: int) -> Graph:
    """Makes an Attention with a `rounding` of products, a softmax and what rounds each; `kept`: tensors that stay."""
    links, made, gone = _Links(graph), dict[str, Node](), set[str]()
    for node in graph.nodes:
        parts = _parts(links, node) if node.op == "StridedProduct" else None
        names = {part.output for part in parts.all} if parts else set[str]()
        attention = _attention(graph, parts, block) if parts and names.isdisjoint(kept) else None
        if attention:
            made[attention.output] = attention
            gone |= names - {attention.output}
    nodes = [made.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in gone]
    return dataclasses.replace(graph, nodes=nodes) if made else graph


@dataclasses.dataclass(frozen=True)
class _Parts:
    """The product of queries and keys, what makes weights of it, their product with values, and what follows that."""

    product: Node
    rounding: Rounding
    weights: Steps
    between: Sequence[Node]
    values: Node
    behind: Sequence[Node]

    @property
    def all(self) -> Sequence[Node]:
        return (self.product, *self.between, self.values, *self.behind)


def _attention(graph: Graph, parts: _Parts, block: int) -> Node | None:
    """The node in the place of these; None where its tensors are no rows of whole blocks."""
    sources, last = [*parts.product.inputs, parts.values.inputs[1]], parts.behind[-1]
    attributes = _loops(graph, parts.product, parts.values, parts.behind)
    are_rows = all(_is_rows(graph, name, block) for name in (*sources, last.output))
    if attributes is None or not are_rows or any(size % block for size in attributes["extents"][-2:]):
        return None
    attributes |= {name: parts.behind[0].attrs[name] for name in ("alpha", "beta")}
    attributes |= {"rounding": parts.rounding, "weights": parts.weights, "activation": "fake_quantize"}
    attributes["parts"] = tuple(node.name for node in parts.all)
    return Node("Attention", parts.values.name, sources, last.outputs, attributes)


def _parts(links: _Links, values: Node) -> _Parts | None:
    """All of attention around the product of weights and values; None where that is of something else."""
    weights = links.before(values.inputs[0], "FakeQuantize")
    softmax = links.before(weights.inputs[0], "Softmax") if weights else None
    scores = _scores(links, softmax.inputs[0]) if softmax else None
    behind, tensor = list[Node](), values.output
    for op in ("FakeQuantize", "Transpose", "Reshape"):
        node = links.behind(tensor, op)
        behind, tensor = ([*behind, node], node.output) if node else (behind, tensor)
    known = _steps(links.graph, weights.output) if weights else None
    if not (weights and softmax and scores and known and behind) or behind[0].op != "FakeQuantize":
        return None
    if softmax.attrs["axis"] != len(links.graph.shape(softmax.output)) - 1:
        return None
    product, rounding, nodes = scores
    return _Parts(product, rounding, known, [*nodes, softmax, weights], values, behind)


def _scores(links: _Links, tensor: str) -> tuple[Node, Rounding, list[Node]] | None:
    """The product of queries and keys, how it becomes these scores, and the nodes that do it."""
    scores, factor, nodes = _steps(links.graph, tensor), 1.0, list[Node]()
    scaled = links.before(tensor, "Mul", "Div")
    if scaled:
        number = links.graph.constants.get(scaled.inputs[1])
        if number is None or number.size != 1 or scaled.attrs.get("activation") != "fake_quantize":
            return None
        factor = float(number.reshape(())) if scaled.op == "Mul" else 1 / float(number.reshape(()))
        nodes, tensor = [scaled], scaled.inputs[0]
    rounded = links.before(tensor, "FakeQuantize")
    product = links.before(rounded.inputs[0] if rounded else tensor, "StridedProduct")
    first = _steps(links.graph, tensor) if rounded else scores
    if product is None or scores is None or first is None or not (scaled or rounded):
        return None
    if not rounded:
        return product, Rounding(first, None, factor, scores), nodes
    table = nearest_bytes(first.reals() * np.float32(factor), scores) if scaled else None
    return product, Rounding(first, table, 1.0, scores), [rounded, *nodes]


def _loops(graph: Graph, product: Node, values: Node, behind: Sequence[Node]) -> dict[str, Any] | None:
    """The attributes of Attention that say where everything lies; None where heads lie otherwise."""
    scores, shape = product.attrs["shape"], values.attrs["shape"]
    rank = len(shape)
    if rank not in (3, 4) or scores[:-1] != shape[:-1] or graph.shape(values.inputs[0]) != scores:
        return None
    *lead, queries, keys = scores
    if values.attrs["summed"] != scores[-1:] or len(product.attrs["summed"]) != 1:
        return None
    q, k, w, v = (node.attrs[f"{side}_strides"] for node in (product, values) for side in "ab")
    dense = zip((*scores[:-1], 1, keys), w, (*row_major_strides(scores)[:-1], 0, 1), strict=True)
    if any(size > 1 and step != wanted for size, step, wanted in dense):
        return None
    if w[rank - 1] or q[rank - 1] or k[rank - 2] or v[rank - 2] or (q[rank], k[rank], v[rank - 1]) != (1, 1, 1):
        return None
    out = graph.shape(behind[-1].output)
    y = row_major_strides(shape)
    for node in behind:
        if node.op == "Transpose":
            moved = row_major_strides(graph.shape(node.output))
            y = tuple(moved[axis] for axis in np.argsort(node.attrs["perm"]))
    if y[-1] != 1 or min(*q, *k, *v) < 0 or keys > _MOST_KEYS:
        return None
    return {
        "extents": (*(1, *lead)[-2:], queries, keys, product.attrs["summed"][0], shape[-1]),
        "q_strides": _four(q, rank, rank - 2, rank),
        "k_strides": _four(k, rank, rank - 1, rank),
        "v_strides": _four(v, rank, rank, rank - 1),
        "mask_strides": (0, 0, 0, 0),
        "offsets": (0, 0, 0),
        "shape": out,
        "y_strides": (0, *y)[-4:],
        "members": 1,
        "scale": 1.0,
        "causal": False,
        "safe": False,
    }


def _four(strides: Shape, rank: int, place: int, element: int) -> Shape:
    """Strides of batch, head, place and element."""
    return (*(0, *strides[: rank - 2])[-2:], strides[place], strides[element])


def _steps(graph: Graph, tensor: str) -> Steps | None:
    """The steps of a tensor that holds whole steps of eight bits, rounded as ONNX defines it; None of any other."""
    known = graph.tensors[tensor].quantization
    fits = known is not None and known.is_whole and known.integers in EIGHT_BITS and not known.fixed_point
    return Steps.of(known) if fits and known else None


def _is_rows(graph: Graph, tensor: str, block: int) -> bool:
    """Whether a tensor lies in bytes as rows of whole blocks."""
    shape = graph.shape(tensor)
    is_row_major = len(shape) not in (0, 1, IMAGE_RANK) and shape[-1] % block == 0
    return is_row_major and _steps(graph, tensor) is not None and not graph.is_constant(tensor)


def _serves(builder: Builder, node: Node) -> bool:
    return "rounding" in node.attrs


def _lower(builder: Builder, node: Node) -> None:
    q, k, v = (builder.read_bytes(name) for name in node.inputs)
    y, rounding, weights = builder.write_bytes(node.output), node.attrs["rounding"], node.attrs["weights"]
    assert q.steps and k.steps and v.steps and y.steps
    table = np.arange(256, dtype=np.uint8) if rounding.table is None else rounding.table
    dims = dict(zip(_EXTENTS, node.attrs["extents"], strict=True))
    for name in "qkvy":
        dims |= {f"{name}s{axis}": step for axis, step in enumerate(node.attrs[f"{name}_strides"])}
    zeros = {"q": q.steps, "k": k.steps, "v": v.steps, "w": weights}
    dims |= {f"{name}_zero": steps.zero for name, steps in zeros.items()}
    dims["looks_up"] = int(bool((table != np.arange(256)).any()))
    floats = {
        "score_scale": q.steps.step * k.steps.step * rounding.factor / rounding.product.step,
        "step": rounding.scores.step,
        "per_weight": 1.0 / weights.step,
        "y_scale": weights.step * v.steps.step / y.steps.step,
        **byte_bounds(rounding.product, "score_a score_b"),
        **byte_bounds(y.steps, "act_a act_b"),
    }
    bytes_of = Value(f"{node.name}:table", (256,), Storage.FLAT, ElementType.U8, data=table)
    tensors, shown = {"q": q, "k": k, "v": v, "table": bytes_of, "y": y}, ProfileInfo(node.attrs["shape"])
    defines = {"BLOCK": builder.block}
    builder.launch(QUANTIZED_ATTENTION, node.name, "Attention", tensors, dims, floats, defines, shown, "eight bits")


QUANTIZED_OPERATORS = {
    "Attention": QuantizedOperator(_serves, _lower, lambda builder, node: True, inputs=3, is_only=True)
}
BYTE_FUSIONS = (fuse_attention_in_bytes,)
