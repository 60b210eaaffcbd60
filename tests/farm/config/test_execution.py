"""Threads, CPUs and hints: what is accepted, what goes before what, and what farmrt is told."""

from pathlib import Path

import pytest

from farm.config import deployment, execution
from farm.config.execution import Execution
from farm.nightly import configuration
from runtime.errors import ConfigError
from tests.farm.model.tiny_model import write_deployment

FULL = Execution(4, "big_only", "high", "low")


def test_the_command_line_goes_before_the_file() -> None:
    assert Execution(num_threads=2).over(FULL) == Execution(2, "big_only", "high", "low")
    assert Execution().over(FULL) == FULL
    assert FULL.over(Execution()) == FULL


def test_what_farmrt_is_told() -> None:
    told = {
        "threads": 4,
        "affinity": "big",
        "perf_hint": "high",
        "priority_hint": "low",
        "flush_every": None,
        "record": None,
    }
    assert FULL.words == told
    assert Execution(opencl_record_launches=0).words["record"] == 0
    assert Execution(opencl_queue_window_size=8).words["flush_every"] == 8
    assert Execution(opencl_queue_window_size=0).words["flush_every"] is None  # MACE's "no window"
    assert Execution(cpu_affinity_policy="0,2-3").words["affinity"] == "0,2-3"
    assert set(Execution().words.values()) == {None}


def test_only_hints_that_ask_for_something_make_trials_others() -> None:
    assert Execution(4, "big_only").hints == Execution(None, None, "default", "default").hints == ""
    assert FULL.hints == "perf=high,priority=low"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"num_threads": 0}, "num_threads: Input should be greater than or equal to 1"),
        ({"cpu_affinity_policy": "huge"}, "cpu_affinity_policy: 'huge' is no affinity; write none, big_only, "),
        ({"cpu_affinity_policy": "4-"}, "cpu_affinity_policy: '4-' is no affinity"),
        (
            {"cpu_affinity_policy": "3"},
            r"cpu_affinity_policy: 3 is none of MACE's policies \(0 none, .*write 3-3 for CPU 3",
        ),
        ({"opencl_queue_window_size": -1}, "opencl_queue_window_size: Input should be greater than or equal to 0"),
        ({"gpu_perf_hint": 4}, "gpu_perf_hint: Input should be 'default', 'low', 'normal' or 'high'"),
        ({"gpu_perf_hint": "warp"}, "gpu_perf_hint: Input should be 'default', 'low', 'normal' or 'high'"),
    ],
)
def test_a_bad_value_of_a_script(values: dict[str, int | str], text: str) -> None:
    with pytest.raises(ConfigError, match=f"^{text}"):
        execution.checked(**values)


def test_maces_numbers_mean_what_they_mean_there(tmp_path: Path) -> None:
    """0 AFFINITY_NONE, 1 BIG_ONLY, 2 LITTLE_ONLY; hints 0 DEFAULT, 1 LOW, 2 NORMAL, 3 HIGH; a list is of CPUs."""
    path = write_deployment(tmp_path, cpu_affinity_policy="1", gpu_perf_hint="3", gpu_priority_hint="1")
    assert deployment.load(path).models["tiny"].execution == Execution(None, "big_only", "high", "low")
    assert execution.checked(cpu_affinity_policy=2, gpu_perf_hint=0) == Execution(None, "little_only", "default")
    write_deployment(tmp_path, cpu_affinity_policy="[1]")
    assert deployment.load(path).models["tiny"].execution.cpu_affinity_policy == "1-1"


def test_a_deployment_file(tmp_path: Path) -> None:
    path = write_deployment(tmp_path, num_threads="2", cpu_affinity_policy="[0, 1]", opencl_queue_window_size="4")
    model = deployment.load(path).models["tiny"]
    assert model.execution == Execution(2, "0,1", None, None, 4)
    assert model.with_execution(Execution(3)).execution == Execution(3, "0,1", None, None, 4)


def test_a_deployment_file_with_a_mistake(tmp_path: Path) -> None:
    path = write_deployment(tmp_path, cpu_affinity_policy="big")
    with pytest.raises(ConfigError, match=r"tiny.yml:\d+: models.tiny.cpu_affinity_policy: .*'big' is no affinity"):
        deployment.load(path)


def test_a_setting_of_a_night(tmp_path: Path) -> None:
    path = tmp_path / "nightly.yml"
    path.write_text("models: [zoo://mobilenet_v1]\nsettings:\n  pinned: {cpu_affinity_policy: 4-7, num_threads: 4}\n")
    assert configuration.load(path).settings["pinned"].execution == Execution(4, "4-7")
