"""The main job on an ARM64 board over SSH: real sshd, real OpenCL, the board's own farmrt."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from farm.config.inventory import Unit
from farm.emulation.debian_root import MODEL, SOC
from farm.transport import Transport
from farm.units.facts import read_facts
from runtime.errors import DeadlineError
from tests.farm.model.quantised_models import FORMS, SHAPE
from tests.integration.board_jobs import MOBILENET, deploy, rows_of
from tests.integration.conftest import DEADLINE_S, CallFarm

pytestmark = pytest.mark.slow
CPU = str(max(os.sched_getaffinity(0)))


@pytest.fixture
def pushed(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that pushes really send from now on."""
    from farm.transport.ssh import SshTransport

    names: list[str] = []
    push = SshTransport.push

    def recorded(self: SshTransport, files: Mapping[str, Path]) -> list[str]:
        sent = push(self, files)
        names.extend(sent)
        return sent

    monkeypatch.setattr(SshTransport, "push", recorded)
    return names


@pytest.mark.parametrize("form", FORMS)
def test_a_quantised_model_of_each_form_is_right(unit: Unit, farm: CallFarm, tmp_path: Path, form: str) -> None:
    deploy(tmp_path, model=FORMS[form](), shape=",".join(map(str, SHAPE)))
    rows = rows_of(farm("run", "tiny.yml", "--validate", "--json", "--round", "1"))
    assert [row["runtime"] for row in rows] == ["cpu", "gpu"]


def test_a_model_is_converted_run_profiled_and_tuned(
    unit: Unit, farm: CallFarm, pushed: list[str], tmp_path: Path
) -> None:
    deploy(tmp_path)
    assert farm("convert", "tiny.yml")[0] == 0

    rows = rows_of(farm("run", "tiny.yml", "--validate", "--json", "--round", "3"))
    assert [row["runtime"] for row in rows] == ["cpu", "gpu"]
    assert all(row["cosine"] > 0.9999 and row["nan_count"] == 0 for row in rows)
    assert all(len(row["latency_ms"]["samples"]) == 3 and row["device_model"] == MODEL for row in rows)
    assert "PoCL" in rows[1]["fingerprint"]["opencl"] and "pocl" in rows[1]["settings"]["opencl_library"]
    assert {Path(name).name for name in pushed} == {"farmrt", "data"} and len(pushed) > 4

    pushed.clear()
    again = rows_of(farm("run", "tiny.yml", "--validate", "--json", "--round", "3"))
    assert [row["cosine"] for row in again] == [row["cosine"] for row in rows]
    assert pushed == []

    for row in rows_of(farm("benchmark", "tiny.yml", "--json", "--round", "3")):
        assert {op["type"] for op in row["ops"]} >= {"Conv2D", "FullyConnected"}
        assert sum(op["percent"] for op in row["ops"]) == pytest.approx(100, abs=1)

    tuned = rows_of(farm("tune", "tiny.yml", "--soc", SOC, "--budget", "150", "--json"))[1]
    assert tuned["trials"] > 3 and tuned["default_ms"] > 0 and tuned["tuned_ms"] > 0
    files = [Path(name) for name in tuned["artifacts"] if name.endswith(".bin")]  # and the choice, if one was kept
    model = MODEL.replace(" ", "")
    assert files == [
        Path(f"build/tinylib/opencl/arm64/tinylib_{kind}.{model}.{SOC}.bin")
        for kind in ("tuned_opencl_parameter", "compiled_opencl_kernel")
    ]
    assert farm("artifacts", "verify", *map(str, files))[0] == 0

    (_, used) = rows_of(farm("run", "tiny.yml", "--validate", "--json", "--round", "3"))
    assert (used["tuned"]["match"], used["kernels"]["match"], used["kernels"]["built"]) == ("exact", "exact", 0)


def test_a_network_of_the_zoo_runs_correctly(unit: Unit, farm: CallFarm, tmp_path: Path) -> None:
    (tmp_path / "small.yml").write_text(MOBILENET)
    (row,) = rows_of(farm("run", "small.yml", "--validate", "--json", "--round", "2"))
    assert row["cosine"] > 0.9999 and row["nan_count"] == 0


def test_the_example_of_the_c_api_runs_on_the_board(unit: Unit, farm: CallFarm, tmp_path: Path) -> None:
    deploy(tmp_path)
    for row in rows_of(farm("run", "tiny.yml", "--example", "--json", "--round", "2")):
        assert row["cosine"] > 0.9999 and row["settings"]["example"] is True
        assert len(row["latency_ms"]["samples"]) == 2


def test_threads_stay_on_their_cpus_and_memory_is_told(unit: Unit, farm: CallFarm, tmp_path: Path) -> None:
    """What the board's kernel says of farmrt's threads while they work, and of its highest resident set."""
    deploy(tmp_path)
    asked = ("--cpu_affinity_policy", f"{CPU}-{CPU}", "--gpu_perf_hint", "high")
    on_cpu, on_gpu = rows_of(farm("run", "tiny.yml", "--json", "--round", "2", *asked))
    assert (on_cpu["cpu"]["threads"], on_cpu["cpu"]["cpus_in_force"]) == (1, [CPU])
    assert on_gpu["gpu_perf_hint"] == {"asked": "high", "outcome": "not supported", "extension": ""}
    assert all(row["peak_memory"]["resident_bytes"] > sum(row["memory_bytes"].values()) for row in (on_cpu, on_gpu))
    assert on_gpu["peak_memory"]["gpu_bytes"] is None and on_gpu["peak_memory"]["reason"]
    status, _, said = farm("run", "tiny.yml", "--cpu_affinity_policy", "900-900")
    assert status == 1 and "affinity: CPU 900 does not exist; there are 0" in said


def test_the_boards_facts_are_read(transport: Transport) -> None:
    found = read_facts(transport)
    assert (found.soc, found.model, found.abis) == (SOC, MODEL, ("arm64",))
    assert found.os.startswith("Debian")


def test_a_deadline_ends_what_runs_on_the_board(transport: Transport) -> None:
    with pytest.raises(DeadlineError):
        transport.run(["sh", "-c", "sleep 1234 & sleep 1234"], 1.0)
    left = transport.run(["ps", "-A", "-o", "args"], DEADLINE_S).stdout.decode()
    assert "sshd" in left and "1234" not in left
