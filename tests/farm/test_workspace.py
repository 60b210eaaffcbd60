from __future__ import annotations

from pathlib import Path

import pytest

from farm.device_state import read_state
from farm.transport.base import Completed
from farm.workspace import Workspace, data_file, file_part


def test_files_lie_as_the_layout_says() -> None:
    workspace = Workspace("squeeze")
    plan = workspace.plan_file("net", "host", "sdm845", "gpu")
    assert workspace.graph_file("net") == Path("build/squeeze/model/net.onnx")
    assert plan == Path("build/squeeze/model/host/net.sdm845.gpu.plan")
    assert data_file(plan) == Path("build/squeeze/model/host/net.sdm845.gpu.data")
    opencl = Path("build/squeeze/opencl/arm64-v8a")
    tuned = workspace.tuned_file("arm64-v8a", "Mi Note 3", "sdm660")
    assert tuned == opencl / "squeeze_tuned_opencl_parameter.MiNote3.sdm660.bin"
    kernels = workspace.kernels_file("arm64-v8a", "Mi Note 3", "sdm660")
    assert kernels == opencl / "squeeze_compiled_opencl_kernel.MiNote3.sdm660.bin"
    assert workspace.manifest_file("arm64-v8a") == opencl / "manifest.json"
    assert workspace.on_unit("net.plan") == "squeeze/net.plan"


@pytest.mark.parametrize(("text", "part"), [("../../etc", "______etc"), (" ", "unknown"), ("Größe/2", "Gr__e_2")])
def test_device_models_cannot_leave_the_folder(text: str, part: str) -> None:
    assert file_part(text) == part


class FakeUnit:
    """A unit of which only some files can be read."""

    def __init__(self, **files: str) -> None:
        self.files = files

    def run(self, argv: list[str], deadline_s: float) -> Completed:
        texts = [text for part, text in self.files.items() for path in argv[1:] if part in path]
        return Completed(0, "".join(texts).encode(), b"")


def test_the_state_of_a_phone() -> None:
    unit = FakeUnit(loadavg="3.50 2.1 1.0 2/800 4711\n", cpu1="1766400\n", cpu0="300000\n", thermal_zone0="41500\n")
    state = read_state(unit)  # type: ignore[arg-type]
    assert (state.load_average, state.temperature_c) == (3.5, 41.5)
    assert set(state.clock_mhz) >= {300.0, 1766.4}


def test_the_state_of_a_machine_without_frequency_files() -> None:
    state = read_state(FakeUnit(cpuinfo="cpu MHz\t\t: 2596.128\nother: 1\ncpu MHz\t\t: 2600.0\n"))  # type: ignore[arg-type]
    assert state.clock_mhz == (2596.128, 2600.0)
    assert (state.load_average, state.temperature_c) == (None, None)
