"""The Android executable on the emulated board: a real ARM64 user space, with glibc in the place of bionic."""

import os
from pathlib import Path

import pytest
import yaml

from farm.config import inventory
from farm.config.inventory import Unit
from farm.emulation import namespace
from farm.emulation.board import Board
from farm.engines.wheels import GLIBC_OF_FARMRT, UnitPython, fetch_wheels
from farm.jobs.fleet.opening import open_unit
from tests.conftest import require
from tests.integration.board_jobs import deploy, rows_of
from tests.integration.conftest import CallFarm
from tests.native import qemu

pytestmark = pytest.mark.slow

ABI = "arm64-v8a"
LIBRARIES = Path("/lib/aarch64-linux-gnu")
LDCONFIG_DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def android_libraries(board: Board) -> None:
    """Puts glibc's under the names of Android's linker and C library into the board's root."""
    require("board", "" if os.geteuid() == 0 else "only root can add Android's libraries to the board")
    qemu.add_android(board.root, LIBRARIES, board.root / "lib/ld-linux-aarch64.so.1")
    (board.root / "etc/ld.so.conf.d/android.conf").write_text("/system/lib64\n")
    namespace.run("farm-ldconfig", ["/sbin/ldconfig"], board.folder / "ldconfig.log", LDCONFIG_DEADLINE_S, board.root)


@pytest.fixture
def phone(android_libraries: None, unit: Unit) -> Unit:
    """The board, as if it were Android's."""
    entries = yaml.safe_load(Path("devices.yml").read_text())
    entries["devices"]["board"]["target_abis"] = [ABI]
    Path("devices.yml").write_text(yaml.safe_dump(entries))
    (found,) = inventory.load_inventory().units
    return found


def test_the_android_farmrt_probes_the_board(phone: Unit) -> None:
    with open_unit(phone) as opened:
        probe = opened.probe.model_dump()
    assert probe["abi"] == ABI
    assert probe["cpu"]["cores"] == os.cpu_count() and "asimd" in probe["cpu"]["features"]
    assert "PoCL" in probe["opencl"]["platform_version"]
    assert "/vendor/lib64/libOpenCL.so" in probe["opencl"]["searched"]


def test_models_run_correctly_on_the_cpu_and_in_opencl(phone: Unit, farm: CallFarm, tmp_path: Path) -> None:
    deploy(tmp_path, ABI)
    rows = rows_of(farm("run", "tiny.yml", "--validate", "--json", "--round", "2"))
    assert [row["runtime"] for row in rows] == ["cpu", "gpu"]
    assert all(row["cosine"] > 0.9999 and row["nan_count"] == 0 for row in rows)


def test_onnx_runtime_runs_by_a_library_of_the_users(phone: Unit, farm: CallFarm, tmp_path: Path) -> None:
    """The wheel for ARM64 stands for an AAR: its library needs glibc, which is what stands for bionic here."""
    (wheel,) = fetch_wheels(["onnxruntime"], UnitPython("3.11", GLIBC_OF_FARMRT, "aarch64"))
    Path("engines.yml").write_text(f"libraries:\n  onnxruntime:\n    file: {{{ABI}: {wheel}}}\n")
    deploy(tmp_path, ABI)
    Path("tiny.yml").write_text(Path("tiny.yml").read_text().replace("cpu+gpu", "cpu"))
    (row,) = rows_of(farm("run", "tiny.yml", "--validate", "--json", "--round", "2", "--engine", "onnxruntime"))
    assert row["sqnr_db"] > 100 and row["settings"]["runner"] == "c" and len(row["latency_ms"]["samples"]) == 2
