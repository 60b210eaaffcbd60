"""farmrt's answers are checked where they come in: a wrong one ends the session."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.farmrt.answers import ANSWERS, ProbeAnswer, RunAnswer, parsed, waited_share
from farm.farmrt.session import MAX_MESSAGE, Session
from farm.transport.local import LocalTransport
from runtime.errors import DeviceError

DEVICE = {
    "name": "Adreno 630",
    "driver": "1",
    "version": "OpenCL 2.0",
    "compute_units": 2,
    "max_work_group_size": 1024,
    "max_work_item_sizes": [1024, 1024, 1024],
    "local_memory_bytes": 32768,
    "max_allocation_bytes": 2**30,
    "images": True,
    "image2d_max_width": 16384,
    "image2d_max_height": 16384,
    "fp16": True,
}
OPENCL = {"library": "/vendor/lib64/libOpenCL.so", "platform_version": "OpenCL 2.0", "device": DEVICE}
PROBE = {"ok": True, "abi": "aarch64-android", "cpu": {"model": None, "cores": 8}, "opencl": OPENCL}
GOOD: dict[str, dict[str, Any]] = {
    "probe": PROBE,
    "load": {
        "init_ms": 12,
        "memory": {"scratch_bytes": 0},
        "tuned": {"match": "none", "entries": 0, "reason": ""},
        "kernels": {"match": "exact", "reason": "", "build_ms": 0.5},
    },
    "memory": {"process": 77, "peak_resident_bytes": 4096, "since_load": True},
    "run": {"first_ms": None, "wall_ns": [1, 2.5], "steps": [{"start_ns": 0, "first_ns": 3, "ns": [4]}]},
    "trial": {
        "build_ms": 0,
        "ns": [1000.0],
        "max_abs_error": 0.5,
        "max_abs_expected": 1.0,
        "nan_count": 0,
        "max_work_group_size": 256,
        "preferred_multiple": 64,
    },
}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("probe", {"abi": 3}, "abi: "),
    ("probe", {"opencl": None}, "opencl: "),
    ("probe", {"opencl": OPENCL | {"device": "Adreno"}}, "opencl.device: "),
    ("probe", {"opencl": OPENCL | {"device": DEVICE | {"fp16": 1}}}, "opencl.device.fp16: "),
    ("probe", {"opencl": OPENCL | {"device": DEVICE | {"name": "x" * 5000}}}, "opencl.device.name: "),
    ("probe", {"opencl": OPENCL | {"device": DEVICE | {"compute_units": -1}}}, "opencl.device.compute_units: "),
    ("probe", {"opencl": OPENCL | {"platform_version": None}}, "opencl: value error, platform_version is missing"),
    ("load", {"init_ms": "1"}, "init_ms: "),
    ("load", {"tuned": {"match": 1, "reason": ""}}, "tuned.match: "),
    ("load", {"memory": {"scratch_bytes": 2**64}}, "memory.scratch_bytes: "),
    ("run", {"wall_ns": []}, "wall_ns: "),
    ("run", {"wall_ns": [1, -2]}, "wall_ns.1: "),
    ("run", {"wall_ns": [float("nan")]}, "wall_ns.0: "),
    ("run", {"wall_ns": [True]}, "wall_ns.0: "),
    ("run", {"wall_ns": None}, "wall_ns: "),
    ("run", {"steps": [{"start_ns": 0}]}, "steps.0.first_ns: "),
    ("run", {"threads": {"running_ns": 1}}, "threads.waiting_ns: "),
    ("run", {"threads": {"running_ns": 1, "waiting_ns": -1}}, "threads.waiting_ns: "),
    ("trial", {"ns": ["1000"]}, "ns.0: "),
    ("trial", {"max_work_group_size": 1.5}, "max_work_group_size: "),
]


@pytest.mark.parametrize("command", ANSWERS)
def test_good_answers_pass(command: str) -> None:
    assert type(parsed(command, GOOD[command])) is ANSWERS[command]


@pytest.mark.parametrize(("command", "wrong", "text"), BAD)
def test_wrong_or_missing_members_are_named(command: str, wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parsed(command, GOOD[command] | wrong)
    assert str(caught.value).startswith(text)


def test_a_probe_without_opencl_passes() -> None:
    answer = parsed("probe", PROBE | {"opencl": {"library": None, "device": None, "error": "none found"}})
    assert isinstance(answer, ProbeAnswer) and answer.target("sdm845").memory == "cpu"


def rounds(wall_ns: list[int], running_ns: int, waiting_ns: int) -> RunAnswer:
    """An answer with times of rounds, the first of which warmed up, and of threads."""
    threads = {"running_ns": running_ns, "waiting_ns": waiting_ns}
    return RunAnswer.model_validate({"warmup_ns": wall_ns[:1], "wall_ns": wall_ns[1:], "threads": threads})


def test_the_share_that_rounds_waited_for_a_core() -> None:
    alone = rounds([100, 100, 100], running_ns=600, waiting_ns=0)
    beside_others = rounds([100, 100, 100], running_ns=200, waiting_ns=400)
    on_a_gpu = rounds([100, 100, 100], running_ns=6, waiting_ns=6)
    assert waited_share([alone]) == 0
    assert waited_share([beside_others]) == pytest.approx(400 / 600), "of what two threads wanted"
    assert waited_share([on_a_gpu]) == pytest.approx(6 / 300), "the CPU had little to do, so that its waits say little"
    assert waited_share([alone, beside_others]) == pytest.approx(400 / 1200)


def test_where_the_unit_does_not_tell_the_share_is_unknown() -> None:
    untold = RunAnswer.model_validate({"wall_ns": [100]})
    assert waited_share([untold]) is None and waited_share([]) is None
    assert waited_share([untold, rounds([100, 100], 50, 150)]) == pytest.approx(150 / 200)


def test_other_commands_may_answer_anything() -> None:
    assert parsed("output", {"bytes": "many"}).model_extra == {"bytes": "many"}


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(DEVICE)), inner, max_size=3),
    ),
    st.sampled_from(["abi", "cpu", "opencl", *DEVICE]),
)
def test_a_probe_that_passes_makes_a_target(value: Any, name: str) -> None:
    probe = PROBE | ({name: value} if name in PROBE else {"opencl": OPENCL | {"device": DEVICE | {name: value}}})
    try:
        answer = parsed("probe", probe)
    except ValueError:
        return
    assert isinstance(answer, ProbeAnswer)
    answer.target("sdm845")


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Any]:
    """A session whose farmrt answers the first command with a given line."""
    transport = LocalTransport(tmp_path / "unit")

    def start(line: str) -> Session:
        (tmp_path / "unit/line").write_text(f"{line}\n")
        program = tmp_path / "unit/farmrt"
        program.write_text("#!/bin/sh\nread -r command\ncat line\ncat >/dev/null\n")
        program.chmod(0o755)
        return Session(transport, "farmrt")

    yield start
    transport.close()


def test_a_wrong_answer_ends_the_session(answering: Any) -> None:
    with answering(json.dumps({"ok": True, "wall_ns": "soon"})) as session:
        with pytest.raises(DeviceError, match="run: farmrt's answer is not what it should be: wall_ns: ") as caught:
            session.command("run")
        assert (caught.value.kind, session.alive) == ("bad_answer", False)


@pytest.mark.parametrize(
    "line", ['{"ok":' + "[" * 100_000, '{"ok": 1' + "0" * 10_000 + "}", "{" * 1000, '{"ok": "yes"}']
)
def test_text_that_is_no_answer_is_an_error(answering: Any, line: str) -> None:
    with answering(line) as session, pytest.raises(DeviceError, match="cannot be read") as caught:
        session.command("run")
    assert len(str(caught.value)) < 400


def test_a_long_message_is_cut(answering: Any) -> None:
    failure = {"ok": False, "error": "opencl" * 1000, "message": "m" * 10**6, "step": {"a": 1}}
    with answering(json.dumps(failure)) as session, pytest.raises(DeviceError) as caught:
        session.command("run")
    assert len(str(caught.value)) < MAX_MESSAGE + 100
    assert len(caught.value.kind) < 100
