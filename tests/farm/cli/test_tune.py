"""`farm tune` and `farm artifacts` on this machine, through the command line."""

import dataclasses
import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.config import deployment, inventory
from farm.farmrt.session import Session
from farm.jobs.fleet.opening import open_unit
from farm.jobs.models.prepare import prepare
from farm.jobs.tune import proof, search
from farm.jobs.tune.built_programs import Start
from farm.jobs.tune.job import SEARCH_ENVIRONMENT
from farm.jobs.tune.trials import TrialPlans, UnitTrials, trials_on
from farm.model import fetch
from farm.rows.tune import TuneRow
from farm.store import Store
from farm.tables.tune import outcome_lines
from farm.workspace import data_file
from runtime.errors import DeviceLostError, ModelError
from runtime.kernels.spec import Variant
from runtime.lowering.trials import TrialLaunch, TrialPlan, trial_plan
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import deployment_text, write_deployment
from tests.farm.played_tuning import PlayedTuning
from tuner.search import LEVELS
from tuner.space import default_candidate
from tuner.trial import Candidate, Trial, TrialStatus, validated

pytestmark = [pytest.mark.slow, pytest.mark.opencl]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_deployment(tmp_path)


def tuned_row(farm: CallFarm, *more: str) -> dict[str, Any]:
    status, out, err = farm("tune", "--soc", "host", "tiny.yml", "--json", *more)
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"], row["reason"]) == (0, "ok", ""), err
    return row  # type: ignore[no-any-return]


def test_tuning_leaves_two_files_that_are_used(farm: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    PlayedTuning(monkeypatch, trial_s=0.2)
    row = tuned_row(farm, "--budget", "3", "--no-selection")
    assert row["default_ms"] > 0 and row["tuned_ms"] > 0 and row["device_s"] > 0
    assert row["build_ahead"] is None, "not on a driver for CPUs"
    assert row["trials"] >= row["launches"], "a busy machine tries no more than the defaults in so little time"
    assert set(row["hashes"]) == {"farmrt", "plan", "weights", "tuned", "kernels"}
    low, high = row["gain_ci"] or (None, None)
    assert (low is None) == (row["outcome"] == "no change") == (row["launches_tuned"] == 0)
    assert low is None or low <= row["gain_percent"] <= high
    assert row["launches"] >= 2 and row["cosine"] > 0.9999
    assert row["tuned"]["match"] == "exact" and row["tuned"]["used"] >= row["launches"]
    assert (row["kernels"]["match"], row["kernels"]["built"]) == ("exact", 0), (
        "the processes of the proof load what was compiled"
    )
    assert len(row["default_latency_ms"]["samples"]) == len(row["latency_ms"]["samples"]) > 30
    with Store.open() as store:
        assert list(store.rows()) == [row]

    tuned_file, kernels_file = map(Path, row["artifacts"])
    assert tuned_file.parent == Path("build/tinylib/opencl/host")
    assert tuned_file.name.startswith("tinylib_tuned_opencl_parameter.") and tuned_file.name.endswith(".host.bin")
    assert kernels_file.name.startswith("tinylib_compiled_opencl_kernel.")
    manifest = json.loads((tuned_file.parent / "manifest.json").read_text())
    assert set(manifest["files"]) == {tuned_file.name, kernels_file.name}
    (known,) = manifest["sets"]
    assert [model["model"] for model in known["models"]] == ["tiny"]
    assert len(known["launches"]) == row["launches"] and all(each["reason"] for each in known["launches"])
    _check_run_uses(farm)
    _check_artifact_commands(farm, tuned_file, kernels_file)


def test_candidates_are_timed_with_equal_shares_and_the_proof_runs_as_models_do(
    farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    PlayedTuning(monkeypatch, trial_s=0.2)
    environments: list[dict[str, str]] = []
    begin = Session.__init__

    def noted(session: Session, *given: Any, **more: Any) -> None:
        begin(session, *given, **more)
        environments.append(dict(given[2]))

    monkeypatch.setattr(Session, "__init__", noted)
    tuned_row(farm, "--budget", "3", "--no-selection")
    assert [each for each in environments if each] == [SEARCH_ENVIRONMENT]
    assert {} in environments, "the processes of the proof"


def _check_run_uses(farm: CallFarm) -> None:
    status, out, _ = farm("run", "tiny.yml", "--validate", "--json", "--round", "2")
    (run,) = json.loads(out)["rows"]
    assert (status, run["status"], run["tuned"]["match"], run["kernels"]["match"]) == (0, "ok", "exact", "exact")


def _check_artifact_commands(farm: CallFarm, tuned_file: Path, kernels_file: Path) -> None:
    status, out, _ = farm("artifacts", "list")
    assert status == 0 and str(tuned_file) in out and "compiled kernels" in out
    status, out, _ = farm("artifacts", "show", str(tuned_file), "--json")
    (shown,) = json.loads(out)["sets"]
    assert status == 0 and {"key", "tuned_ns", "local_size"} <= set(shown["entries"][0])
    status, out, _ = farm("artifacts", "show", str(kernels_file))
    assert status == 0 and "-DPRECISION=0" in out
    status, out, _ = farm("artifacts", "verify")
    assert status == 0 and out.count("valid for unit 'host'") == 2 and "WRONG" not in out
    status, out, _ = farm("artifacts", "merge", str(tuned_file), str(tuned_file), "-o", "bundle.bin")
    assert status == 0 and out.startswith("bundle.bin: tuned parameters, 1 sets of 2 files")
    content = bytearray(tuned_file.read_bytes())
    content[-1] ^= 1
    tuned_file.write_bytes(content)
    status, out, _ = farm("artifacts", "verify", "--offline")
    assert status == 1 and out.count("WRONG") == 1
    status, _, err = farm("artifacts", "list")
    assert status == 1 and "damaged" in err


def test_programs_are_built_ahead_where_that_is_asked_for(farm: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a driver for CPUs, where nobody builds ahead unasked."""
    PlayedTuning(monkeypatch)
    row = tuned_row(farm, "--no-selection", "--budget", "30", "--build-ahead", "on")
    assert row["build_ahead"]["hidden_s"] > 0 and not row["build_ahead"]["given_up"]
    assert row["cosine"] > 0.9999 and row["launches"] > 0


def explored() -> set[tuple[str, str]]:
    """Launches with the candidates that a search tried, by the journal, each of which it holds once."""
    lines = map(json.loads, Path("build/tuning/host.jsonl").read_text().splitlines())
    pairs = [
        (line["key"], f"{line['variant']}@{line['local']}") for line in lines if "key" in line and "retest" not in line
    ]
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def test_a_second_call_goes_on_from_the_journal(farm: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the re-test is measured again, and what the first call had no time for."""
    PlayedTuning(monkeypatch, trial_s=0.3)
    tuned_row(farm, "--budget", "5")
    first = explored()
    tuned_row(farm, "--budget", "5")
    assert explored() >= first and len(first) > 3


@pytest.mark.parametrize(
    ("budget", "why"), [("0.01", "too small to try anything"), ("0.3", "spent before any candidate was tried")]
)
def test_a_budget_in_which_nothing_was_tried_tunes_nothing_and_names_its_remedy(
    farm: CallFarm, monkeypatch: pytest.MonkeyPatch, budget: str, why: str
) -> None:
    monkeypatch.setattr(search, "trials_on", slow_to_prepare)
    command = ("tune", "--soc", "host", "tiny.yml", "--no-selection", "--budget", budget)
    status, out, _ = farm(*command)
    last = out.strip().splitlines()[-1]
    assert status == 1 and why in last and "nothing was published" in last
    assert float(re.search(r"to tune it: --budget ([\d.]+)$", last)[1]) > 1.0  # type: ignore[index]
    assert not list(Path("build").rglob("*_tuned_*.bin"))
    _, out, _ = farm(*command, "--json")
    (row,) = json.loads(out)["rows"]
    assert (row["status"], row["outcome"], row["tried"]) == ("ok", "not tuned", 0)
    assert row["budget_needed_s"] > 1.0 and row["artifacts"] == []


def test_a_unit_whose_rounds_take_long_gets_the_trials_that_it_needs(
    farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a level's own time of next to nothing, as quick tuning's 18 s are for rounds of seconds."""
    PlayedTuning(monkeypatch, trial_s=0.5, load_s=0.5)
    quick = dataclasses.replace(LEVELS["quick"], budget_s=0.2)
    monkeypatch.setitem(LEVELS, "quick", quick)
    row = tuned_row(farm, "--no-selection", "--fresh")
    assert row["outcome"] != "not tuned" and row["tried"] >= 1 and row["budget_needed_s"] is None


def slow_to_prepare(*arguments: Any) -> UnitTrials:
    trials = trials_on(*arguments)
    trials.prepare_s = max(trials.prepare_s, 1.0)
    return trials


def test_the_host_prepares_the_trials_while_the_first_programs_are_built(
    farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    PlayedTuning(monkeypatch, trial_s=0.2)
    start, lowered, prepared_meanwhile = search.start_from_source, threading.Event(), []

    def lowering(*arguments: Any) -> TrialPlan:
        assert not lowered.is_set(), "the plan stays as it is: it is lowered once"
        plan = trial_plan(*arguments)
        lowered.set()
        return plan

    def starting(*arguments: Any) -> list[Start]:
        prepared_meanwhile.append(lowered.wait(60))
        return start(*arguments)

    monkeypatch.setattr("farm.jobs.tune.trials.trial_plan", lowering)
    monkeypatch.setattr(search, "start_from_source", starting)
    tuned_row(farm, "--no-selection", "--budget", "3")
    assert prepared_meanwhile == [True]


def test_a_reference_that_cannot_be_computed_is_told_once_though_it_was_asked_for_before(
    farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    PlayedTuning(monkeypatch, trial_s=0.2)

    def failing(*_: Any) -> dict[str, Any]:
        raise ModelError("the reference fails")

    monkeypatch.setattr("farm.jobs.models.prepare.expected_outputs", failing)
    status, out, err = farm("tune", "--soc", "host", "tiny.yml", "--no-selection", "--budget", "3", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"], row["reason"]) == (1, "failed", "the reference fails"), err


def test_a_trial_plan_is_lowered_once_and_again_where_it_is_another() -> None:
    source = deployment.load(Path("tiny.yml"))
    models = [prepare(source, "tiny", fetch.Fetcher(source))]
    with open_unit(inventory.HOST) as opened:
        target = opened.planner.target(models[0], "gpu", "buffer")
        images = opened.planner.target(models[0], "gpu", "image")
    plans, file = TrialPlans(), Path("trials.plan")
    first = plans.written(file, models, target, models[0].options())
    written = data_file(file).read_bytes()
    assert written and not first.plan.data, "which lie in the file alone"
    assert plans.written(file, models, target, models[0].options()) is first
    other = plans.written(file, models, images, models[0].options())
    assert other.plan.target == images
    assert plans.written(file, models, target, models[0].options()) is not first
    assert data_file(file).read_bytes() == written


class HalfLaunch(TrialLaunch):
    """A launch whose global size covers half of the work."""

    def global_size(self, variant: Variant, local_size: Sequence[int]) -> tuple[int, int, int]:
        sizes = list(super().global_size(variant, local_size))
        longest = sizes.index(max(sizes))
        sizes[longest] = sizes[longest] // 2
        x, y, z = sizes
        return (x, y, z)


@pytest.mark.parametrize("memory", ["buffer", "image"])
def test_a_launch_that_does_half_its_work_is_wrong_though_the_rest_was_right_before(memory: str) -> None:
    source = deployment.load(Path("tiny.yml"))
    prepared = prepare(source, "tiny", fetch.Fetcher(source))
    with open_unit(inventory.HOST) as opened:
        trials = trials_on(
            opened, [prepared], opened.planner.target(prepared, "gpu", memory), prepared.options(), "tiny", TrialPlans()
        )
        halved = 0
        for launch in trials.launches:
            # not the default, which runs as the plan has it
            local = (1, 1, 1) if default_candidate(launch).local_size != (1, 1, 1) else (2, 1, 1)
            one = Candidate(launch.variant, local)
            assert launch.poison is not None
            assert validated(trials(launch, one, 3), launch.precision).status == TrialStatus.OK
            half = HalfLaunch(**{field.name: getattr(launch, field.name) for field in dataclasses.fields(launch)})
            if max(launch.global_size(launch.variant, local)) > local[0]:
                halved += 1
                assert validated(trials(half, one, 3), launch.precision).status == TrialStatus.WRONG, launch.key
    assert halved


def test_an_interrupted_search_says_how_to_go_on(farm: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "search", interrupted)
    status, out, err = farm("tune", "--soc", "host", "tiny.yml")
    assert (status, out) == (130, "")
    last = err.splitlines()[-1]
    assert last.startswith("interrupted; ") and "build/tuning/host.jsonl" in last
    assert not list(Path("build").glob("tinylib/opencl/*/*"))


def test_a_unit_that_is_lost_is_a_row_and_its_trials_are_kept(farm: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, left = UnitTrials._attempt, [2]

    def lost(*arguments: Any) -> Trial:
        left[0] -= 1
        if left[0] < 0:
            raise DeviceLostError("the unit does not answer")
        return attempt(*arguments)

    monkeypatch.setattr(UnitTrials, "_attempt", lost)
    status, out, _ = farm("tune", "--soc", "host", "tiny.yml", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"], row["reason"]) == (1, "device_lost", "the unit does not answer")
    assert len(Path("build/tuning/host.jsonl").read_text().splitlines()) == 3


def test_a_cpu_model_is_tuned_as_a_whole(farm: CallFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    """What wins the proof is kept and used; a proof that is not won leaves things as they are."""
    Path("tiny.yml").write_text(deployment_text(runtime="cpu"))
    status, out, _ = farm("tune", "--soc", "host", "tiny.yml", "--budget", "60", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"], row["runtime"]) == (0, "ok", "cpu")
    assert row["trials"] >= 4 and row["default_ms"] > 0 and row["outcome"] in ("new", "kept")
    monkeypatch.setattr(proof, "shortfall", lambda ratio, name, most_ratio: "")
    status, out, _ = farm("tune", "--soc", "host", "tiny.yml", "--budget", "60", "--json")
    (row,) = json.loads(out)["rows"]
    (path,) = row["artifacts"]
    (said,) = outcome_lines([TuneRow.model_validate_json(json.dumps(row))])
    assert re.search(r": \d+ ways to run it were tried; threads: \d, blocks of (8|16) channels, .*; the new", said)
    assert (status, row["outcome"]) == (0, "new")
    assert json.loads(Path(path).read_text())["tuned_ms"] > 0
    assert farm("run", "--soc", "host", "tiny.yml")[0] == 0
    Path(path).write_text("{}")
    status, out, err = farm("run", "--soc", "host", "tiny.yml")
    assert status != 0 and f"{path}: damaged" in out + err
    assert farm("run", "--soc", "host", "--tuned", "none", "tiny.yml")[0] == 0


def test_what_a_unit_cannot_run_is_a_row(farm: CallFarm) -> None:
    Path("tiny.yml").write_text(deployment_text(data_type="fp16_fp16"))
    status, out, _ = farm("tune", "--soc", "host", "tiny.yml", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"]) == (1, "unsupported")
    assert "fp16" in row["reason"] and not row["artifacts"]


def test_no_such_soc(farm: CallFarm) -> None:
    status, _, err = farm("tune", "--soc", "sdm845", "tiny.yml")
    assert status == 3
    assert err == (
        "error: --soc sdm845: no such unit; there are: host (SoC host, ABI host, ready); to add one, plug in a "
        "phone with USB debugging, or write an entry with its transport and address into devices.yml\n"
    )


def test_no_models(farm: CallFarm) -> None:
    status, _, err = farm("tune", "--soc", "host")
    assert (status, err) == (2, "error: models: no deployment files there; name one, as in `farm tune MODEL.yml`\n")


def test_nothing_tuned_yet(farm: CallFarm) -> None:
    assert farm("artifacts", "list") == (0, "none yet; `farm tune` writes them\n", "")


def test_verify_without_artifacts_is_no_mistake(farm: CallFarm) -> None:
    told = "nothing to verify: none yet; `farm tune` writes them\n"
    assert farm("artifacts", "verify", "--offline") == (0, told, "")
