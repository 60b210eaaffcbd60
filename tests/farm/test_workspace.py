"""The layout of the build folder."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize(("text", "part"), [("../../etc", "______etc"), (" ", "unknown"), ("Größe/2", "Gr__e_2")])
def test_device_models_cannot_leave_the_folder(text: str, part: str) -> None:
    assert file_part(text) == part
