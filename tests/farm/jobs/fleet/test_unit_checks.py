"""`farm doctor --device`: what a unit has and lacks, with what to do about each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm import cli
from farm.condition import governor
from farm.config.inventory import HOST, Limits, Unit
from farm.doctor import Check
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.fleet import unit_checks
from farm.lease import lease
from farm.rows.device_state import DeviceState
from farm.transport.local import LocalTransport
from runtime.errors import DeviceLostError

BOARD = Unit("pi", "ssh", "rk3399", "Rock 4", ("arm64",), limits=Limits(max_start_temp_c=50.0))
MALI = {
    **{"name": "Mali-G52", "driver": "18.0", "version": "OpenCL 2.1", "fp16": True, "images": False},
    **{"compute_units": 2, "max_work_group_size": 256, "max_work_item_sizes": [256, 256, 256], "local_memory_bytes": 1},
    **{"max_allocation_bytes": 1, "image2d_max_width": 1, "image2d_max_height": 1},
}
STATE = DeviceState(free_bytes=5_000_000_000, governors={"0-3": "schedutil"}, clock_limit_mhz=(1400.0, 1800.0))


def probe_answer(**opencl: Any) -> ProbeAnswer:
    return ProbeAnswer.model_validate({"abi": "arm64", "cpu": {"model": "Cortex-A72"}, "opencl": opencl})


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Check]]:
    """Examines a board whose parts are given, over a folder of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def call(
        unit: Unit = BOARD, state: DeviceState = STATE, answer: ProbeAnswer | None = None, may_set: bool = False
    ) -> dict[str, Check]:
        good = probe_answer(library="libOpenCL.so", platform_version="OpenCL 2.1", device=MALI)
        monkeypatch.setattr(unit_checks, "connect", lambda unit: LocalTransport(tmp_path / "unit"))
        monkeypatch.setattr(unit_checks, "read_state", lambda transport, ignored: state)
        monkeypatch.setattr(unit_checks, "read_probe", lambda *arguments: answer or good)
        monkeypatch.setattr(governor, "may_set", lambda transport: may_set)
        checks = list(unit_checks.examine_unit(unit))
        assert all(check.advice for check in checks if check.state == "missing")
        return {check.name: check for check in checks}

    return call


def test_a_good_board_lacks_nothing(examine: Callable[..., dict[str, Check]]) -> None:
    found = examine(may_set=True)
    assert [name for name, check in found.items() if check.state != "ok"] == []
    assert found["OpenCL driver"].found == "Mali-G52, driver 18.0, OpenCL 2.1, fp16 arithmetic, no images"
    assert found["clocks"].found == "up to 1800 MHz, governors 0-3: schedutil"
    assert found["storage"].found == "5000 MB free in its folder"
    assert "Cortex-A72" in found["farmrt"].found


def test_a_board_without_a_driver_is_told_where_one_comes_from(examine: Callable[..., dict[str, Check]]) -> None:
    check = examine(answer=probe_answer(error="libOpenCL.so: cannot open"))["OpenCL driver"]
    assert (check.state, check.found) == ("missing", "libOpenCL.so: cannot open")
    assert "board's vendor" in check.advice and "runtime: cpu" in check.advice


def test_what_only_limits_a_board_is_advice(examine: Callable[..., dict[str, Check]]) -> None:
    state = DeviceState(free_bytes=9_000_000, temperature_c=80.0, governors={"0-3": "powersave"})
    found = examine(state=state)
    assert {name for name, check in found.items() if check.state == "advice"} == {"storage", "clocks", "state"}
    assert "80.0 °C" in found["state"].found


def test_what_devices_yml_must_name(examine: Callable[..., dict[str, Check]]) -> None:
    found = examine(Unit("pi", "ssh", "unknown", "pi", ()))
    assert (found["SoC"].state, found["ABI"].state) == ("advice", "missing")
    assert "target_abis" in found["ABI"].advice and "farmrt" not in found


def test_a_unit_in_use_is_left_alone(examine: Callable[..., dict[str, Check]], tmp_path: Path) -> None:
    with lease.acquire(BOARD, LocalTransport(tmp_path / "unit"), "tune"):
        check = examine()["farmrt"]
    assert check.state == "advice" and "held by" in check.found


def test_a_unit_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(unit: Unit) -> Any:
        raise DeviceLostError("pi: no route to host")

    monkeypatch.setattr(unit_checks, "connect", connect)
    (check,) = unit_checks.examine_unit(BOARD)
    assert (check.name, check.state, check.found) == ("connection", "missing", "pi: no route to host")


def test_governors_are_set_where_their_files_may_be_written(tmp_path: Path) -> None:
    transport = LocalTransport(tmp_path / "unit")
    assert not governor.may_set(transport, str(tmp_path / "sys"))
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_governor").write_text("schedutil\n")
    assert governor.may_set(transport, str(tmp_path / "sys"))


@pytest.mark.slow
@pytest.mark.opencl
def test_the_command_asks_farmrt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.call(["doctor", "--device", "host", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert (document["unit"], states["farmrt"], states["OpenCL driver"]) == (HOST.name, "ok", "ok")
    assert cli.call(["doctor", "--device", "hots"]) == 3
