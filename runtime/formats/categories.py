"""The category of every operator: whether it fixes the order of its tensors' axes, moves along, or keeps the source's.

    fixed           works on images in the order NCHW and nothing else: what it reads and writes has this format
    transposable    works in any order of axes once its arguments are rewritten: axes, pads, constants, shapes
    source          its result depends on the order of axes that the model was written in: a format's meaning ends here

`FORMATS` is the table. An operator that it lacks is of source format, which is always right; a user's operator that
can do better enters itself: `FORMATS["Swirl"] = OperatorFormat(FormatCategory.TRANSPOSABLE, rewriting.broadcasting)`.
"""

from __future__ import annotations

import dataclasses
import enum

from runtime.formats import rewriting
from runtime.formats.permutation import Permutation
from runtime.formats.rewriting import Rewriting, Rule
from runtime.graph import Graph, Node
from runtime.operators import BINARY, REDUCTIONS, UNARY


class FormatCategory(enum.StrEnum):
    """What an operator has to do with the order of axes; the module's docstring says what each means."""

    FIXED = "fixed format"
    TRANSPOSABLE = "transposable"
    SOURCE = "source format"


@dataclasses.dataclass(frozen=True)
class OperatorFormat:
    """Category of an operator, and the rule that rewrites a transposable one; the others have none."""

    category: FormatCategory
    rule: Rule | None = None


FIXED = OperatorFormat(FormatCategory.FIXED)
SOURCE = OperatorFormat(FormatCategory.SOURCE)

_FIXED = (
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "Resize",
    "BatchNormalization",
    "LRN",
    "GroupNormalization",
    "RegionPooling",
    "ChannelShuffle",
)
_SOURCE = (
    "Reshape",
    "FullyConnected",
    "MatMul",
    "Attention",
    "RNN",
    "GRU",
    "LSTM",
    "StridedProduct",
    "IndexedWrite",
    "Suppression",
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys((*BINARY, *UNARY, "PRelu", "Elementwise"), rewriting.broadcasting),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Concat", "Join", "Cumulation", "Sorting"), rewriting.on_axis),
    **dict.fromkeys(REDUCTIONS, rewriting.reduced),
    "LayerNormalization": rewriting.normalized,
    "Slice": rewriting.with_ranges,
    "Pad": rewriting.with_pads,
    "Transpose": rewriting.transposed,
    "StridedReduction": rewriting.strided_reduction,
    "Embedding": rewriting.embedded,
    "Strided": rewriting.strided,
    "IndexedRead": rewriting.gathered,
}
FORMATS: dict[str, OperatorFormat] = {
    **dict.fromkeys(_FIXED, FIXED),
    **dict.fromkeys(_SOURCE, SOURCE),
    **{op: OperatorFormat(FormatCategory.TRANSPOSABLE, rule) for op, rule in _RULES.items()},
}


def format_category(op: str) -> FormatCategory:
    """The category of an operator; one that the table lacks is of source format."""
    return FORMATS.get(op, SOURCE).category


def rewritten(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """How a node works on permuted tensors; None where it does not."""
    rule = FORMATS.get(node.op, SOURCE).rule
    return rule(graph, node, perm) if rule else None
