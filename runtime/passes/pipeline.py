"""All passes in their order, run until none changes anything."""

import dataclasses
from collections.abc import Callable, Mapping

from runtime.graph import Graph
from runtime.passes.affine import fold_batch_norms, fuse_biases
from runtime.passes.attention_fusion import fuse_attention
from runtime.passes.attention_sharing import join_products, share_heads
from runtime.passes.fake_quantization import remove_needless_quantizations, round_before_reshapes
from runtime.passes.fully_connected import convert_fully_connected
from runtime.passes.fusion import fuse_activations, fuse_pads, fuse_residuals
from runtime.passes.gated_activations import fuse_gated_activations
from runtime.passes.normalization_fusion import fold_normalization_scales, fuse_normalizations
from runtime.passes.rotary_fusion import fuse_rotary
from runtime.passes.rounds import repeated
from runtime.passes.row_joining import join_rows
from runtime.passes.simplification import (
    fold_constants,
    merge_equals,
    merge_reshapes,
    remove_dead_code,
    remove_identities,
)
from runtime.passes.squeeze_movement import move_squeezes
from runtime.passes.transpose_merging import absorb_transposed_operands, fuse_rearrangements, merge_transposes
from runtime.passes.transpose_movement.movement import move_transposes

# Residuals come before activations, since the sum is what is activated; patterns come before what would cut them up.
PASSES: Mapping[str, Callable[[Graph], list[str]]] = {
    "constant folding": fold_constants,
    "identity removal": remove_identities,
    "normalisation fusion": fuse_normalizations,
    "normalisation scale": fold_normalization_scales,
    "rotary fusion": fuse_rotary,
    "attention fusion": fuse_attention,
    "shared heads": share_heads,
    "transposed operands": absorb_transposed_operands,
    "rearrangements": fuse_rearrangements,
    "transpose movement": move_transposes,
    "transpose merging": merge_transposes,
    "gated activations": fuse_gated_activations,
    "reshape merging": merge_reshapes,
    "equal nodes": merge_equals,
    "squeeze movement": move_squeezes,
    "batch-norm folding": fold_batch_norms,
    "bias fusion": fuse_biases,
    "pad fusion": fuse_pads,
    "rounding before reshapes": round_before_reshapes,
    "needless quantisation": remove_needless_quantizations,
    "residual fusion": fuse_residuals,
    "activation fusion": fuse_activations,
    "reshape to fully connected": convert_fully_connected,
    "shared products": join_products,
    "joined rows": join_rows,
    "dead code": remove_dead_code,
}


@dataclasses.dataclass
class PassReport:
    """What one pass did, a line for each change: the node, or `node into node`."""

    name: str
    changes: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}: {len(self.changes)}"


def run_passes(graph: Graph) -> list[PassReport]:
    """Runs all passes on a graph, in place, until nothing changes; one report a pass, in order.

    Where the bound of `rounds.py` ended that, a last report says so.
    """
    reports = {name: PassReport(name) for name in PASSES}

    def one_round() -> bool:
        found = {name: rewrite(graph) for name, rewrite in PASSES.items()}
        for name, changes in found.items():
            reports[name].changes += changes
        return any(found.values())

    notes = repeated("rewriting", one_round)
    return [*reports.values(), *([PassReport("repetition", notes)] if notes else [])]
