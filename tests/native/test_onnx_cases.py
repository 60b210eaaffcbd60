"""ONNX's own node test cases, one of each operator, through the path of `farm run`; the benchmark runs them all."""

from pathlib import Path

import pytest

from benchmarks.onnx_cases import RIGHT, Case, Outcome, Runner, cases, outcome
from runtime.target import Target

pytestmark = pytest.mark.slow

CPU = Target("host", "host", memory="cpu")
# By name, since no runtime has what they need: strings, sequences, and what only training has.
REFUSED = {
    *("Adagrad", "Adam", "Binarizer", "BitCast", "Det"),
    *("ImageDecoder", "LabelEncoder", "Momentum"),
    *("OptionalGetElement", "OptionalHasElement", "RegexFullMatch", "SequenceInsert"),
    *("SequenceMap", "SplitToSequence", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
    "TreeEnsemble",
}


def best_of_each_operator(folder: Path) -> dict[str, tuple[Case, Outcome]]:
    """The first case of each operator that is not refused, or the first one."""
    found: dict[str, tuple[Case, Outcome]] = {}
    with Runner(folder) as runner:
        for case in cases():
            before = found.get(case.operator)
            if "_expanded" not in case.name and (before is None or before[1].status == "refused"):
                found[case.operator] = case, outcome(case, CPU, runner)
    return found


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Case, Outcome]]:
    return best_of_each_operator(tmp_path_factory.mktemp("cases"))


def test_operators_are_right_or_refused_by_name(ended: dict[str, tuple[Case, Outcome]]) -> None:
    bad = {case.name: result for case, result in ended.values() if result.status not in (*RIGHT, "refused")}
    assert not bad
    assert len(ended) > 190


def test_only_these_operators_are_refused(ended: dict[str, tuple[Case, Outcome]]) -> None:
    assert {operator for operator, (_, result) in ended.items() if result.status == "refused"} == REFUSED
