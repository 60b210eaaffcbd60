"""Measures and writes docs/operators.md: `python -m benchmarks.operators_page`."""

import collections
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.onnx_cases import RIGHT, RUNTIMES, STATUSES, Outcome, Outcomes, cases, measured, show, targets
from benchmarks.onnx_versions import Versions

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
INTRODUCTION = """# Operators

What farm does with ONNX's node test cases, each through import, passes, lowering and farmrt.
`python -m benchmarks.operators_page` measures and writes this page.

| a case is | |
| --- | --- |
| right | with all its inputs given at run time |
| with constants, folded | only where some of its inputs (shapes, axes, weights), or all, are constants of the model |
| padded | with outputs as large as they may become, see below |
| refused | by name, before anything is sent to a unit |

An operator without a kernel for GPUs, and most on doubles or unsigned words, runs on the unit's CPU within a plan
for the GPU (`runtime: cpu+gpu`). Of an index out of range a GPU makes NaN, where a run on a CPU ends with an error.

*Padded.* A run finds how many rows NonMaxSuppression writes, but a plan's tensors have one size: room for all that
there may be (`max_output_boxes_per_class`, or the boxes there are, for each class and image). The rows left over hold
-1, which as an index is the last element. NonZero is padded by columns. `farm convert --explain` names such nodes;
validation compares what the oracle's smaller outputs hold.

*At conversion.* Loop and Scan become the nodes of their bodies, once a turn, where the turns are known (up to 1024).
Random numbers are drawn. Opsets 1 to 6 are brought to 7 by ONNX's converter.

*Wrong.* Two cases of Resize align the corners of a length that is no whole number (4 * 0.6). farm takes the output's
whole size, as ONNX Runtime does.

*The domain `farm`* (version 1) adds SpaceToBatch, BatchToSpace, PSROIPooling, PSROIAlign and Proposal, on the CPU
(`farm_domain.py` in `runtime/families/`). ONNX Runtime knows none of them: such a model's oracle is its graph in
NumPy."""
_RIGHT = """## Right in all cases

In brackets the opsets since which there is a form that is refused or `not measured` (no case has it, or nothing to
compare with runs it).

| runs on | operators |
| --- | --- |"""
_REFUSED = """## Refused in all cases

| why | operators |
| --- | --- |"""
_REST = """## Right in part

`right`: how many of the cases are. `what is not`: such opsets, and why the first case is refused.

| operator | right | runs on | what is not |
| --- | --- | --- | --- |"""
_MACE = """## MACE's operators

By which operators of ONNX, or of the domain `farm`, models have MACE's.

| MACE | here |
| --- | --- |"""


def main() -> None:
    """Measures everything, which takes some minutes, and writes the page."""
    every = list(cases())
    with tempfile.TemporaryDirectory() as name:
        places = targets(Path(name))
        versions = Versions(*places["cpu"])
        for case in every:
            versions.measure(case)
        found = measured(every, places)
    show(found)
    PAGE.write_text(page(found, {case.name: case.operator for case in every}, versions))


def page(found: Outcomes, operators: Mapping[str, str], versions: Versions) -> str:
    """The text of docs/operators.md."""
    by_operator: dict[str, list[Mapping[str, Outcome]]] = collections.defaultdict(list)
    for name, operator in operators.items():
        by_operator[operator].append(found[name])
    lines = [INTRODUCTION, "", *_totals(found), "", *_tables(sorted(by_operator.items()), versions)]
    lines += ["", *_MACE.splitlines(), *map(_mace_row, MACE_OPERATORS)]
    return "\n".join([*lines, ""])


def _totals(found: Outcomes) -> list[str]:
    lines = [f"| runtime | {' | '.join(STATUSES)} |", f"| --- {'| --- ' * len(STATUSES)}|"]
    for runtime in RUNTIMES:
        counts = collections.Counter(by_runtime[runtime].status for by_runtime in found.values())
        lines.append(f"| `{runtime}` | {' | '.join(str(counts[status]) for status in STATUSES)} |")
    return lines


def _tables(by_operator: Iterable[tuple[str, Sequence[Mapping[str, Outcome]]]], versions: Versions) -> list[str]:
    """Operators that are right by where they run, those that are refused by why, and a row for each other one."""
    right: dict[str, list[str]] = collections.defaultdict(list)
    refused: dict[str, list[str]] = collections.defaultdict(list)
    rows = []
    for operator, ended in by_operator:
        counts, places = _counts(ended), ", ".join(_places(ended))
        reason = next((shown(each["cpu"].reason) for each in ended if each["cpu"].status == "refused"), "")
        newest = any(each["cpu"].status in RIGHT for each in ended)
        amiss = "; ".join(filter(None, (versions.text(operator, newest), reason)))
        if all(each[runtime].status == "refused" for each in ended for runtime in RUNTIMES):
            refused[reason].append(operator)
        elif "/" in counts:
            rows.append(f"| {operator} | {counts} | {places} | {amiss} |")
        else:
            right[places or "no kernel: memory is moved at most, or conversion computes it"].append(
                f"{operator} ({amiss})" if amiss else operator
            )
    return [
        *_RIGHT.splitlines(),
        *_listed(right),
        "",
        *_REFUSED.splitlines(),
        *_listed(refused),
        "",
        *_REST.splitlines(),
        *rows,
    ]


def _listed(groups: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"| {group} | {', '.join(operators)} |" for group, operators in sorted(groups.items())]


def _counts(ended: Sequence[Mapping[str, Outcome]]) -> str:
    """How many cases are right, of how many where not all are; of each runtime where they differ."""
    right = {runtime: sum(each[runtime].status in RIGHT for each in ended) for runtime in RUNTIMES}
    counts = {name: f"{count}" if count == len(ended) else f"{count}/{len(ended)}" for name, count in right.items()}
    same = len(set(counts.values())) == 1
    return counts["cpu"] if same else ", ".join(f"{runtime}: {counts[runtime]}" for runtime in RUNTIMES)


def shown(reason: str) -> str:
    """Why a case is refused, without names of nodes and tensors, and what would be supported."""
    short = re.sub(r"^(node '[^']*' )?(\([^)]*\): )?|; (are|supported|custom_operators|give).*", "", reason)
    return re.sub(r"^operator [^ ]+ is | '[^']*'(?= (holds|has|is|of) )", "", short).replace("|", "/")


def _places(ended: Sequence[Mapping[str, Outcome]]) -> list[str]:
    return sorted({place.removeprefix("GPU ") for each in ended for place in each["cpu+gpu"].places})


def _mace_row(name: str) -> str:
    operators, remark = MACE_OPERATORS[name]
    return f"| {name} | {', '.join(operators)}{f': {remark}' if remark else ''} |"


if __name__ == "__main__":
    main()


# MACE's name -> ONNX's operators, or those of the domain `farm`, by which it is done; and a remark.
MACE_OPERATORS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "AVERAGE_POOL_2D": (("AveragePool", "GlobalAveragePool"), ""),
    "ARGMAX": (("ArgMax", "ArgMin"), ""),
    "BATCH_NORM": (("BatchNormalization",), "folded into the convolution before it, or fused with an activation"),
    "BATCH_TO_SPACE_ND": (("farm.BatchToSpace",), ""),
    "BIAS_ADD": (("Add",), "fused into the convolution or product before it"),
    "CAST": (("Cast", "CastLike"), ""),
    "CHANNEL_SHUFFLE": (("Reshape", "Transpose"), "one kernel"),
    "CONCATENATION": (("Concat",), "any axis; in place where possible"),
    "CONV_2D": (("Conv",), "with bias, sum and activation; direct, 1x1 and Winograd"),
    "CROP": (("Slice", "CenterCropPad"), "Caffe's Crop too"),
    "DECONV_2D": (("ConvTranspose",), ""),
    "DEPTHWISE_DECONV2D": (("ConvTranspose",), "any group"),
    "DEPTHWISE_CONV_2D": (("Conv",), "any multiplier"),
    "DEPTH_TO_SPACE": (("DepthToSpace",), "both modes; PyTorch's pixel_shuffle"),
    "DEQUANTIZE": (("DequantizeLinear",), ""),
    "ELEMENT_WISE": (
        ("Add", "Mul", "Div", "Min", "Max", "Neg", "Abs", "Pow", "Equal"),
        "SQR_DIFF by Sub and Mul, RSQRT by Sqrt and Reciprocal",
    ),
    "EMBEDDING_LOOKUP": (("Gather",), ""),
    "EXPANDDIMS": (("Unsqueeze",), "no copy where memory stays"),
    "FILL": (("ConstantOfShape", "Expand"), "of a known shape"),
    "FULLY_CONNECTED": (("Gemm", "MatMul"), ""),
    "GROUP_CONV_2D": (("Conv",), "any group"),
    "IDENTITY": (("Identity",), "removed"),
    "LOCAL_RESPONSE_NORMALIZATION": (("LRN",), ""),
    "LOGISTIC": (("Sigmoid",), ""),
    "LSTM": (("LSTM",), "a layer a launch; dequantised where quantised"),
    "MATMUL": (("MatMul",), ""),
    "MAX_POOL_2D": (("MaxPool", "GlobalMaxPool"), ""),
    "PAD": (("Pad",), ""),
    "PSROI_ALIGN": (("farm.PSROIAlign", "farm.PSROIPooling"), ""),
    "PRELU": (("PRelu",), ""),
    "REDUCE_MEAN": (("ReduceMean",), "any axes"),
    "RELU": (("Relu",), "fused"),
    "RELU1": (("Clip",), "fused"),
    "RELU6": (("Clip",), "fused"),
    "RELUX": (("Clip",), "fused"),
    "RESHAPE": (("Reshape", "Flatten"), "no copy where memory stays"),
    "RESIZE_BILINEAR": (("Resize", "Upsample"), "all coordinate modes; nearest and cubic too"),
    "REVERSE": (("Slice", "ReverseSequence"), "by a step of -1"),
    "RNN": (("RNN", "GRU"), ""),
    "RPN_PROPOSAL_LAYER": (("farm.Proposal",), "Caffe's Proposal"),
    "SHAPE": (("Shape",), "folded"),
    "STACK": (("Unsqueeze", "Concat"), ""),
    "STRIDEDSLICE": (("Slice",), ""),
    "SPLIT": (("Split",), "slices, as views where possible"),
    "SOFTMAX": (("Softmax",), ""),
    "SPACE_TO_BATCH_ND": (("farm.SpaceToBatch",), ""),
    "SPACE_TO_DEPTH": (("SpaceToDepth",), "both modes"),
    "SQUEEZE": (("Squeeze",), "no copy where memory stays"),
    "TANH": (("Tanh",), ""),
    "TRANSPOSE": (("Transpose",), "moved to where fewest bytes are transposed"),
    "UNSTACK": (("Split", "Squeeze"), ""),
}
