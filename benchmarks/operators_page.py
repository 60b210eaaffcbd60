"""Measures and writes docs/operators.md: `python -m benchmarks.operators_page`."""

from __future__ import annotations

import collections
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.mace_operators import MACE_OPERATORS
from benchmarks.onnx_cases import RIGHT, RUNTIMES, STATUSES, Outcome, Outcomes, cases, measured, show, targets
from benchmarks.onnx_versions import Versions

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
INTRODUCTION = """# Operators

What farm does with ONNX's operators: the node test cases of the ONNX package, each through import, passes, lowering
and farmrt. `python -m benchmarks.operators_page` measures and writes this page. A case is right with all its inputs
given at run time; where that is refused, with some of them (shapes, axes, weights) as constants of the model, or,
`folded`, with all of them, so that the conversion computes the outputs. A case that is refused is refused by name,
before anything is sent to a unit. An operator that has no kernel for a GPU runs on the unit's CPU within a plan for the
GPU (`runtime: cpu+gpu`), as does all that works on other element types than float32.

`padded`: how many rows NonMaxSuppression writes is what a run finds, and a plan's tensors have one size. The result has
room for all that there may be (`max_output_boxes_per_class`, or the boxes there are, for each class and image); the
rows behind those that were found hold -1, which as an index is the last element. `farm convert --explain` names such
nodes, and validation compares what the oracle's smaller outputs hold. Loop and Scan become the nodes of their bodies,
once a turn, where the turns are known at conversion (up to 1024). NonZero is padded by columns. Random numbers are
drawn at conversion; their cases are compared with ONNX Runtime on the same numbers.

`right`: how many of the operator's cases are, on either runtime. `runs on`: the CPU, or a GPU in `buffer` or `image`
memory. `what is not`: the opsets since which there is a form of the operator that is refused or `not measured` (nothing
to compare with runs it, or no case has such a form), and why the first case is refused. All other forms are right: the
cases are of the newest one, and older ones are written of them. Opsets 1 to 6 are brought to 7 by ONNX's converter.

The two cases of Resize that are wrong align the corners of a length that is no whole number (4 * 0.6). farm takes the
output's whole size for it, as ONNX Runtime does, whose outputs validation compares with.

Beside ONNX's, models may use operators of the domain `farm` (version 1), which run on the CPU: SpaceToBatch,
BatchToSpace, PSROIPooling, PSROIAlign and Proposal (`farm_domain.py` in `runtime/families/`). ONNX Runtime
knows none of them: the oracle of such a model is its graph in NumPy."""
_HEAD = ("| operator | right | runs on | what is not |", "| --- | --- | --- | --- |")
_MACE = """## MACE's operators

Each of MACE's list, and the operators of ONNX by which models have it here; `farm.` is the domain `farm`. `runs on` is
what the cases of these operators ran on; copies that only reorder memory are not counted.

| MACE | here | runs on | remark |
| --- | --- | --- | --- |"""


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
    lines = [INTRODUCTION, "", *_totals(found), "", *_HEAD]
    lines += [_row(operator, ended, versions) for operator, ended in sorted(by_operator.items())]
    lines += ["", *_MACE.splitlines(), *(_mace_row(name, by_operator) for name in MACE_OPERATORS)]
    return "\n".join([*lines, ""])


def _totals(found: Outcomes) -> list[str]:
    lines = [f"| runtime | {' | '.join(STATUSES)} |", f"| --- {'| --- ' * len(STATUSES)}|"]
    for runtime in RUNTIMES:
        counts = collections.Counter(by_runtime[runtime].status for by_runtime in found.values())
        lines.append(f"| `{runtime}` | {' | '.join(str(counts[status]) for status in STATUSES)} |")
    return lines


def _row(operator: str, ended: Sequence[Mapping[str, Outcome]], versions: Versions) -> str:
    """An operator's cases; the reason is that of the first refusal."""
    right = {runtime: sum(each[runtime].status in RIGHT for each in ended) for runtime in RUNTIMES}
    counts = {name: f"{count}" if count == len(ended) else f"{count}/{len(ended)}" for name, count in right.items()}
    same = len(set(counts.values())) == 1
    count = counts["cpu"] if same else ", ".join(f"{runtime}: {counts[runtime]}" for runtime in RUNTIMES)
    reason = next((each["cpu"].reason for each in ended if each["cpu"].status == "refused"), "")
    not_right = filter(None, (versions.text(operator, right["cpu"] > 0), shown(reason)))
    return f"| {' | '.join([operator, count, ', '.join(_places(ended)), '; '.join(not_right)])} |"


def shown(reason: str) -> str:
    """Why a case is refused, without the node, and what would be supported."""
    return re.sub(r"^(node '[^']*' )?(\([^)]*\): )?|; (are|supported|custom_operators).*", "", reason).replace("|", "/")


def _places(ended: Sequence[Mapping[str, Outcome]]) -> list[str]:
    return sorted({place.removeprefix("GPU ") for each in ended for place in each["cpu+gpu"].places})


def _mace_row(name: str, by_operator: Mapping[str, Sequence[Mapping[str, Outcome]]]) -> str:
    """Where operators of the domain `farm` run is not measured: on the CPU."""
    operators, remark = MACE_OPERATORS[name]
    places = {place for each in operators for place in _places(by_operator.get(each, ()))}
    places |= {"CPU"} if any(each.startswith("farm.") for each in operators) else set()
    return f"| {name} | {', '.join(operators)} | {', '.join(sorted(places))} | {remark} |"


if __name__ == "__main__":
    main()
