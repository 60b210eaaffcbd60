"""Choice of OpenCL library and target, from made-up drivers and probes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from farm.config import deployment
from farm.config.inventory import HOST
from farm.farmrt import drivers, working_drivers
from farm.farmrt.answers import CpuAnswer, ProbeAnswer
from farm.farmrt.drivers import Driver
from farm.jobs.fleet import opening
from farm.jobs.fleet.opencl_library import check_opencl, find_opencl
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.plan_files import write_changed
from farm.jobs.fleet.planner import choose_target
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.models.prepare import Prepared, prepare
from farm.model.fetch import Fetcher
from farm.transport.base import CompletedProgram
from farm.transport.local import LocalTransport
from farm.units import facts, facts_cache
from farm.units.facts import Facts
from runtime.errors import ConfigError, DeviceError, UnsupportedError
from runtime.types import Precision
from tests.farm.model.tiny_model import write_deployment

SYSTEM = Driver(Path("/lib/libpocl.so"), "system", "PoCL")
PYPI = Driver(Path("/site/libpocl.so"), "pypi", "PoCL")
BOARD = dataclasses.replace(HOST, name="board", transport="ssh")

DEVICE: dict[str, Any] = {
    "name": "Adreno (TM) 630",
    "vendor": "QUALCOMM",
    "type": "gpu",
    "version": "OpenCL 2.0",
    "driver": "V@415",
    "compute_units": 2,
    "max_work_group_size": 1024,
    "max_work_item_sizes": [1024, 1024, 1024],
    "local_memory_bytes": 32768,
    "global_memory_bytes": 2**32,
    "max_allocation_bytes": 2**30,
    "images": True,
    "image2d_max_width": 16384,
    "image2d_max_height": 16384,
    "fp16": False,
}


def probe(**opencl: Any) -> ProbeAnswer:
    known = {"platform_version": "OpenCL 2.0 QUALCOMM", "device": DEVICE}
    return ProbeAnswer.model_validate({"abi": "arm64-v8a", "cpu": {}, "opencl": known | opencl})


def prepared(folder: Path, **keys: str) -> Prepared:
    found = deployment.load(write_deployment(folder, **keys))
    return prepare(found, "tiny", Fetcher(found))


@pytest.fixture
def both_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "find_drivers", lambda: [SYSTEM, PYPI])
    monkeypatch.setattr(working_drivers, "fault", lambda driver: "")
    monkeypatch.delenv("FARM_OPENCL", raising=False)


@pytest.mark.usefixtures("both_drivers")
def test_the_best_driver_is_taken_unless_the_user_says_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_opencl(HOST, None) == "/lib/libpocl.so"
    assert find_opencl(HOST, "pypi") == "/site/libpocl.so"
    assert find_opencl(HOST, "/my/driver.so") == "/my/driver.so"
    monkeypatch.setenv("FARM_OPENCL", "/named/in/environment.so")
    assert find_opencl(HOST, None) is None
    assert find_opencl(HOST, "system") == "/lib/libpocl.so"


@pytest.mark.usefixtures("both_drivers")
def test_a_driver_that_builds_nothing_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_drivers, "fault", lambda driver: "builds nothing" if driver is SYSTEM else "")
    assert find_opencl(HOST, None) == "/site/libpocl.so"
    check_opencl(HOST, "/site/libpocl.so")
    check_opencl(HOST, "/my/driver.so")
    check_opencl(BOARD, "/lib/libpocl.so")
    with pytest.raises(UnsupportedError, match=r"unit 'host': PoCL \(/lib/libpocl.so\) builds nothing; .*install"):
        check_opencl(HOST, "/lib/libpocl.so")


@pytest.mark.usefixtures("both_drivers")
def test_where_nothing_works_jobs_that_need_no_opencl_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_drivers, "fault", lambda driver: "builds nothing")
    assert find_opencl(HOST, None) == "/lib/libpocl.so"
    assert find_opencl(HOST, "pypi") == "/site/libpocl.so"


@pytest.mark.usefixtures("both_drivers")
def test_a_board_searches_by_itself() -> None:
    assert find_opencl(BOARD, None) is None
    with pytest.raises(ConfigError, match="--opencl pypi is for this machine; name a library for unit 'board'"):
        find_opencl(BOARD, "pypi")


def test_an_origin_without_driver_is_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "find_drivers", lambda: [PYPI])
    with pytest.raises(ConfigError, match=r"--opencl system: no such driver .*; there are: pypi \(/site/libpocl.so\)"):
        find_opencl(HOST, "system")
    monkeypatch.setattr(drivers, "find_drivers", list)
    assert find_opencl(HOST, None) is None


def test_targets_follow_runtime_data_type_and_memory(tmp_path: Path) -> None:
    found = prepared(tmp_path, runtime="cpu+gpu", data_type="fp16_fp32")
    gpu = choose_target(HOST, probe(), found, "gpu")
    assert (gpu.memory, gpu.precision, gpu.allow_cpu) == ("image", Precision.FP16_STORAGE, True)
    assert choose_target(HOST, probe(), found, "gpu", "buffer").memory == "buffer"
    cpu = choose_target(HOST, probe(), found, "cpu")
    assert (cpu.memory, cpu.precision) == ("cpu", Precision.FP16_STORAGE)


def test_a_cpu_multiplies_halves_where_it_can(tmp_path: Path) -> None:
    found = prepared(tmp_path, runtime="cpu", data_type="fp16_fp16")
    able = probe().model_copy(update={"cpu": CpuAnswer(features=["asimd", "asimdhp"])})
    precisions = [choose_target(HOST, each, found, "cpu").precision for each in (able, probe())]
    assert precisions == [Precision.FP16, Precision.FP16_STORAGE]


def test_a_gpu_only_model_may_not_fall_back(tmp_path: Path) -> None:
    assert not choose_target(HOST, probe(), prepared(tmp_path), "gpu").allow_cpu


@pytest.mark.parametrize(
    ("opencl", "memory", "data_type", "text"),
    [
        ({"device": None, "error": "libOpenCL.so: not found"}, None, "fp32_fp32", r"no OpenCL driver \(libOpenCL.so"),
        ({"device": None}, None, "fp32_fp32", r"no OpenCL driver \(none was found\); `farm doctor --device host`"),
        ({"device": DEVICE | {"images": False}}, "image", "fp32_fp32", "has no images; use --memory buffer"),
        ({"device": DEVICE}, None, "fp16_fp16", "no fp16 arithmetic; set data_type: fp16_fp32"),
    ],
)
def test_what_a_unit_cannot_do_says_what_to_change(
    tmp_path: Path, opencl: dict[str, Any], memory: str | None, data_type: str, text: str
) -> None:
    found = prepared(tmp_path, data_type=data_type)
    with pytest.raises(UnsupportedError, match=text):
        choose_target(HOST, probe(**opencl), found, "gpu", memory)


def test_a_file_is_written_only_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a" / "plan"
    write_changed(path, b"one")
    first = path.stat().st_ino
    write_changed(path, b"one")
    assert path.stat().st_ino == first
    write_changed(path, b"two")
    assert path.read_bytes() == b"two"


def test_deadlines_grow_with_the_rounds() -> None:
    assert rounds_deadline_s(1, 1.0) < 70 < rounds_deadline_s(1000, 100.0)


TOO_OLD = r"^s5: Android 6.0.1 \(API 23\) is too old: farm needs Android 7"
S5 = dataclasses.replace(HOST, name="s5", transport="adb", serial="0123", soc="msm8974")  # as devices.yml has it


def test_a_phone_that_is_too_old_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    facts_cache.update(S5, Facts(os="Android 6.0.1 (API 23)"))
    with pytest.raises(DeviceError, match=TOO_OLD):
        open_unit(S5).__enter__()


class OldPhone(LocalTransport):
    """Tells what it is, and can do nothing else."""

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> CompletedProgram:
        assert argv[-1] == facts.SCRIPT
        return CompletedProgram(0, b"\n@farm ro.build.version.release\n6.0.1\n\n@farm ro.build.version.sdk\n23\n", b"")


def test_so_is_one_that_nobody_has_looked_at_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opening, "connect", lambda unit, **_: OldPhone(tmp_path / "unit"))
    with pytest.raises(DeviceError, match=TOO_OLD):
        open_unit(S5).__enter__()
    monkeypatch.setattr(opening, "connect", None)
    with pytest.raises(DeviceError, match=TOO_OLD):  # now it is known
        open_unit(S5).__enter__()
