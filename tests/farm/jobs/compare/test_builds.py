"""Builds of farm and versions of a model, measured against each other on this machine and on an emulated phone."""

import dataclasses
import itertools
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.condition.throttling import MeasuredSample
from farm.config import deployment, inventory
from farm.config.inventory import Unit
from farm.emulation import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.jobs.compare import builds as builds_module
from farm.jobs.compare import bundle, checkout, contender, duet
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.jobs.compare.contender import Contender
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.turn_journal import KeptTurn
from farm.rows.compare import CompareRow, ComparisonOutcome, Side
from farm.rows.device_state import DeviceState
from farm.rows.status import Status
from runtime.errors import ConfigError, DeviceError
from tests.farm.model.tiny_model import deployment_text, tiny_model, write_deployment

pytestmark = [pytest.mark.slow, pytest.mark.opencl, pytest.mark.usefixtures("untold_waits")]
ROOT = Path(bundle.__file__).resolve().parents[3]
FEW = CompareOptions(turns=8, margin_percent=25.0, seed=1)  # what a busy machine does to eight turns
WAITED_SHARE = duet.waited_share
# A farm that is no other than this one, and then does something to the bundle.
PRETENDER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
for name in [name for name in sys.modules if name == "farm" or name.startswith("farm.")]:
    del sys.modules[name]
import farm.jobs.compare.bundle as bundle
bundle._source = lambda: Path({source!r})
words = sys.argv[1:]
folder = Path(words[-1])
{before}
status = bundle.main(words)
{after}
sys.exit(status)
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_deployment(tmp_path, runtime="cpu")
    return Path("tiny.yml")


def pretender(folder: Path, before: str = "", after: str = "") -> Path:
    """A checkout of farm whose bundles are this farm's, but for what these lines do."""
    (folder / "farm/jobs/compare").mkdir(parents=True)
    for package in ("farm", "farm/jobs", "farm/jobs/compare"):
        (folder / package / "__init__.py").touch()
    program = PRETENDER.format(root=str(ROOT), source=str(folder), before=before, after=after)
    (folder / "farm/jobs/compare/bundle.py").write_text(program)
    return folder


def compared(
    a: Contender, b: Contender, options: CompareOptions = FEW, units: Sequence[Unit] = (inventory.HOST,)
) -> list[CompareRow]:
    return list(compare_job((a, b), units, options))


def models(a: Path, b: Path) -> tuple[Contender, Contender]:
    return contender.models(deployment.load(a), deployment.load(b))


def build(text: str, model: Path) -> Contender:
    return contender.build(text, deployment.load(model))


def builds(model: Path, a: Path, b: Path) -> tuple[Contender, Contender]:
    return build(str(a), model), build(str(b), model)


def test_two_versions_of_a_model(tmp_path: Path, model: Path) -> None:
    write_deployment(tmp_path)
    (tmp_path / "narrow.yml").write_text(deployment_text(data_type="fp16_fp32", runtime="cpu+gpu"))
    (row,) = compared(*models(model, Path("narrow.yml")))  # the CPU is only in one of them
    assert (row.status, row.reason, row.runtime) == (Status.OK, "", "gpu")
    assert (row.a.name, row.b.name, row.a.kind) == ("tiny.yml", "narrow.yml", "model")
    assert (
        row.outcome != ComparisonOutcome.NONE
        and row.ratio
        and row.ratio_ci
        and row.ratio_ci[0] <= row.ratio <= row.ratio_ci[1]
    )
    assert row.cosine is not None and row.cosine > 0.999 and row.sqnr_db is not None and 40 < row.sqnr_db < 150
    assert [block.arm for block in row.blocks] == ["a", "b"] * 8
    assert all(len(block.samples) >= 4 and block.init_ms > 0 and block.first_ms > 0 for block in row.blocks)
    assert row.b.latency_ms == row.latency_ms and row.settings["data_type"] == "fp16_fp32"
    assert row.settings["turns"] == 8 and row.a.versions and row.a.fingerprint["soc"] == "host"


class InterruptedAt(ProgressView):
    """Ctrl-C as soon as a stage is told; the stages before it."""

    def __init__(self, text: str) -> None:
        self._text, self.told = text, list[str]()

    def stage(self, unit: str, text: str) -> None:
        self.told.append(text)
        if self._text in text:
            raise KeyboardInterrupt


def test_an_interrupted_comparison_goes_on_with_its_turns(model: Path) -> None:
    both, options = models(model, model), dataclasses.replace(FEW, repeat=2)
    with pytest.raises(KeyboardInterrupt):
        list(compare_job(both, [inventory.HOST], options, progress=InterruptedAt("turn 3 of 8")))
    (first,) = Path("build").glob("*/compare/host/tiny.cpu.0.turns.jsonl")
    kept = [KeptTurn.model_validate_json(line) for line in first.read_bytes().split()]
    assert [turn.number for turn in kept] == [0, 1]

    second = InterruptedAt("turn 4 of 8 again")
    rows = list(compare_job(both, [inventory.HOST], dataclasses.replace(options, seed=9), progress=second))
    assert [text.partition(": ")[2] for text in second.told if "turn" in text] == [
        *(f"turn {number} of 8" for number in range(3, 9)),
        *(f"turn {number} of 8" for number in range(1, 9)),
    ]
    assert [row.settings["seed"] for row in rows] == [1, 10], "an interrupted one keeps its own order"
    assert rows[0].blocks[:4] == (*kept[0].blocks, *kept[1].blocks) and len(rows[0].blocks) == 16
    assert not list(Path("build").glob("*/compare/host/*.jsonl")), "all rows are there"


def test_turns_that_waited_for_a_core_get_further_ones(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = itertools.chain([0.9] * 6, itertools.repeat(0.1))  # of A and B in three turns, then of the others
    monkeypatch.setattr(duet, "waited_share", lambda answers: next(shares))
    progress = InterruptedAt("never")
    (row,) = list(compare_job(models(model, model), [inventory.HOST], FEW, progress=progress))
    assert [block.waited_share for block in row.blocks] == [0.9] * 6 + [0.1] * 16
    assert row.waited_share == pytest.approx((6 * 0.9 + 16 * 0.1) / 22) and row.outcome != ComparisonOutcome.NONE
    assert row.a.latency_ms and len(row.a.latency_ms.samples) == sum(len(each.samples) for each in row.blocks[6::2])
    assert any("turn 9 of 9, since the unit was busy" in text for text in progress.told)


def test_on_a_unit_that_stays_busy_nothing_is_the_same(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duet, "waited_share", lambda answers: 0.9)
    (row,) = compared(*models(model, model), FEW)
    assert len(row.blocks) == 4 * FEW.turns, "twice as many turns, and then an end"
    assert row.status == Status.OK and row.outcome not in (ComparisonOutcome.SAME, ComparisonOutcome.TOO_SMALL)
    assert "the unit was busy with other work: rounds waited 90 % of their time for a core" in row.verdict


def test_turns_of_something_else_and_of_fresh_calls_are_not_gone_on_with(tmp_path: Path, model: Path) -> None:
    both = models(model, model)
    for other, told in (
        (dataclasses.replace(FEW, turns=9), "turn 1 of 9"),
        (dataclasses.replace(FEW, fresh=True), "turn 1 of 8"),
    ):
        with pytest.raises(KeyboardInterrupt):
            list(compare_job(both, [inventory.HOST], FEW, progress=InterruptedAt("turn 3 of 8")))
        progress = InterruptedAt("never")
        list(compare_job(both, [inventory.HOST], other, progress=progress))
        assert any(told in text for text in progress.told)
    with pytest.raises(KeyboardInterrupt):
        list(compare_job(both, [inventory.HOST], FEW, progress=InterruptedAt("turn 3 of 8")))
    write_deployment(tmp_path, tiny_model(weights=np.ones((4, 3, 3, 3))), runtime="cpu")
    progress = InterruptedAt("never")
    list(compare_job(both, [inventory.HOST], FEW, progress=progress))
    assert any("turn 1 of 8" in text for text in progress.told)


def test_a_model_that_computes_something_else_is_no_failure_where_two_models_are_compared(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_deployment(other, tiny_model(weights=np.ones((4, 3, 3, 3))), runtime="cpu")
    (row,) = compared(*models(Path("tiny.yml"), Path("other/tiny.yml")))
    assert row.status == Status.OK and row.cosine is not None and row.cosine < 0.999


def test_a_build_whose_outputs_depart_is_wrong(tmp_path: Path, model: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = write_deployment(other, tiny_model(weights=np.ones((4, 3, 3, 3))), runtime="cpu")
    wrong = pretender(tmp_path / "wrong", before=f"words[0] = {str(path)!r}")
    (row,) = compared(*builds(model, pretender(tmp_path / "right"), wrong))
    assert row.status == Status.WRONG_RESULT and row.reason.startswith("B's outputs depart from A's: y: ")
    assert row.outcome != ComparisonOutcome.NONE


def test_a_build_whose_farmrt_dies_is_a_row_that_says_which(tmp_path: Path, model: Path) -> None:
    dead = "Path(folder, 'farmrt').write_text('#!/bin/sh\\nexit 7\\n')"
    a, b = builds(model, pretender(tmp_path / "right"), pretender(tmp_path / "dead", after=dead))
    (row,) = compared(a, b)
    assert row.status != Status.OK and row.reason.startswith("B: ") and "7" in row.reason
    assert (row.a, row.b, row.outcome) == (a.side, b.side, ComparisonOutcome.NONE)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])  # either begins the first turn with some of them
def test_rounds_that_fail_beside_the_other_ones_name_the_one_whose_they_are(
    model: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """B fails in the first turn, which either may begin."""
    plain, rehearse = duet.first_rounds, duet.rehearse

    def failing(opened: OpenUnit, inputs: Mapping[str, Any]) -> tuple[float, float]:
        if "turn" in progress.told[-1] and inputs is last["b"]:
            raise DeviceError("no luck", "io")
        return plain(opened, inputs)

    last, progress = dict[str, Any](), InterruptedAt("never")
    monkeypatch.setattr(duet, "first_rounds", failing)

    def rehearsed(opened: OpenUnit, of_one: duet.Entry, kernels: Path) -> duet.Rehearsal:
        last[of_one.arm] = of_one.inputs
        return rehearse(opened, of_one, kernels)

    monkeypatch.setattr(builds_module, "rehearse", rehearsed)
    options = dataclasses.replace(FEW, seed=seed)
    (row,) = list(compare_job(models(model, model), [inventory.HOST], options, progress=progress))
    assert row.status != Status.OK and row.reason == "B: no luck"


def test_a_build_that_cannot_make_the_model_is_a_row(tmp_path: Path, model: Path) -> None:
    broken = "sys.exit('error: tiny.yml:3: this farm does not know that')"
    (row,) = compared(*builds(model, pretender(tmp_path / "broken", before=broken), tmp_path / "broken"))
    assert row.status == Status.BUILD_FAILED
    assert row.reason == f"A: {tmp_path}/broken (not under git): tiny.yml:3: this farm does not know that"


@pytest.mark.parametrize("hot", [2, 8])
def test_turns_that_heat_spoiled_are_left_out(model: Path, monkeypatch: pytest.MonkeyPatch, hot: int) -> None:
    turns = iter(range(10))

    def measured(self: OpenUnit, measure: Any, rest: object = None) -> MeasuredSample[Any]:
        reason = "thermal status severe" if next(turns) < hot else ""
        return MeasuredSample(measure(), DeviceState(), DeviceState(), reason, 2)

    monkeypatch.setattr(OpenUnit, "measured", measured)
    (row,) = compared(*models(model, model), dataclasses.replace(FEW, turns=10))
    assert row.throttled == "thermal status severe" and len(row.blocks) == 20
    assert row.a.latency_ms and len(row.a.latency_ms.samples) == sum(
        len(each.samples) for each in row.blocks[2 * hot :: 2]
    )
    if hot == 2:
        assert row.status == Status.OK and row.outcome != ComparisonOutcome.NONE
    else:
        assert row.status == Status.FAILED and row.reason.startswith("not decided: 2 turns count; 8 ")


def test_on_an_emulated_phone(model: Path) -> None:
    with emulated_phone_unit("mi8", PhoneSettings(soc="sdm845")) as unit:
        (row,) = compared(*models(model, model), units=[unit])
    assert (row.status, row.reason, row.unit, row.soc) == (Status.OK, "", "mi8", "sdm845")
    assert row.cosine == 1.0 and row.outcome != ComparisonOutcome.NONE


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of farm with two tags: in `after`, CPU operators wait 5 ms first, a convolution loops 32 times.

    Waiting takes no core: it is seen on a busy machine too.
    """
    folder = tmp_path / "repository"
    for name in checkout.SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / ".gitignore").write_text("build/\n__pycache__/\n")
    commit(folder, "before")
    cpu_call = folder / "runtime/native/src/cpu/cpu_call.c"
    slow_down(cpu_call, "#include <string.h>\n", "#include <string.h>\n#include <time.h>\n")
    slow_down(
        cpu_call,
        "    call->operator->run(call, workers);",
        "    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);\n    call->operator->run(call, workers);",
    )
    planes = folder / "runtime/families/convolution/conv2d_planes.buffer.cl"
    slow_down(planes, "#define ROWS_AT_ONCE (STRIDE && PRECISION != 2)", "#define ROWS_AT_ONCE 0")
    slow_down(
        planes,
        "whole_rows ? k_w : 1;\n        for (int c = 0; c < in_c; c++) {",
        "whole_rows ? k_w : 1;\n        for (int k = 0; k < 32 * in_c; k++) {\n            const int c = k % in_c;\n"
        "            if (c == 0) {\n                start_tile(sum, b + b_offset + channel);\n"
        "                weights = packed(w + w_offset, channel, in_c * k_h * k_w);\n            }",
    )
    commit(folder, "after")
    monkeypatch.setattr(checkout, "repository", lambda: folder)
    return folder


def slow_down(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def commit(folder: Path, tag: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", tag], ["tag", tag]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True)


def is_busy(row: CompareRow) -> bool:
    """Whether nothing could be told since this machine was busy with other work."""
    return row.outcome == ComparisonOutcome.UNDECIDED and "the unit was busy with other work" in row.verdict


def test_a_commit_that_slows_down_is_found_and_one_that_does_nothing_is_not(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duet, "waited_share", WAITED_SHARE)
    path = write_deployment(tmp_path, shape="200,3,8,8", runtime="cpu+gpu")
    options = CompareOptions(turns=8, margin_percent=25.0, seed=1)
    before, after = build("before", path), build("after", path)
    rows = {row.runtime: row for row in compared(before, after, options)}
    assert set(rows) == {"cpu", "gpu"}
    assert all(row.outcome == ComparisonOutcome.SLOWER or is_busy(row) for row in rows.values())
    assert all(row.ratio and row.ratio > 1.5 for row in rows.values() if "busy" not in row.verdict)
    assert all(row.status == Status.OK and row.cosine == 1.0 for row in rows.values()), "slow ones give the same"
    assert rows["gpu"].a.commit == before.side.commit != rows["gpu"].b.commit
    assert any(note.startswith("source hash: ") for note in rows["gpu"].notes)
    unchanged = {ComparisonOutcome.SAME, ComparisonOutcome.TOO_SMALL}
    again = compared(before, before, dataclasses.replace(options, margin_percent=100.0, runtimes=("cpu",)))
    assert all(row.outcome in unchanged or is_busy(row) for row in again), "other processes may slow one side down"


# --- what is refused before anything is measured


def test_a_farm_that_is_too_old(repository: Path, model: Path) -> None:
    (repository / "farm/jobs/compare/bundle.py").unlink()
    commit(repository, "old")
    with pytest.raises(ConfigError, match=r"too old to be compared, it has no farm\.jobs"):
        build("old", model)


def test_a_folder_with_changes_is_named_as_such(repository: Path, model: Path) -> None:
    assert not build(str(repository), model).side.changed
    (repository / "farm/new.py").touch()
    found = build(str(repository), model).side
    assert found.changed and found.commit and found.name == str(repository)


def test_models_are_paired_by_name_or_as_the_only_ones(tmp_path: Path, model: Path) -> None:
    text = deployment_text().replace("  tiny:", "  small:")
    (tmp_path / "small.yml").write_text(text)
    _, b = models(model, Path("small.yml"))
    assert b.model_name("tiny") == "small"
    second = "\n".join(["  huge:", *deployment_text().splitlines()[4:]])
    (tmp_path / "more.yml").write_text(f"{text}{second}\n")
    assert list(deployment.load(Path("more.yml")).models) == ["small", "huge"]
    with pytest.raises(ConfigError, match=r"no model is in both files: tiny.yml has tiny, more.yml has small, huge"):
        models(model, Path("more.yml"))


def test_no_runtime_in_common(tmp_path: Path, model: Path) -> None:
    (tmp_path / "gpu.yml").write_text(deployment_text(runtime="gpu"))
    with pytest.raises(ConfigError, match=r"tiny.yml: no model that both have runs on cpu or gpu"):
        compared(*models(model, Path("gpu.yml")))
    same = Contender(Side(name="x"), deployment.load(model))
    with pytest.raises(ConfigError, match=r"no model that both have runs on gpu$"):
        compared(same, same, CompareOptions(runtimes=("gpu",)))
