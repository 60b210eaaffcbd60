"""PyTorch models, exported and scripted, against PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.config.given_model import GivenModel
from farm.jobs.models.prepare import prepare
from farm.model import deployments
from farm.model.fetch import Fetcher
from runtime.errors import ModelError
from tests.frameworks.deployments import assert_agrees, prepared, write

pytestmark = pytest.mark.slow
IMAGE = "3,3,16,16"


def test_an_exported_program_agrees_with_pytorch(tmp_path: Path, pytorch_models: Path) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / "net.pt2", "pixels", IMAGE, "classes")
    assert assert_agrees(prepared(path, tmp_path))["classes"].shape == (3, 5)


def test_a_program_that_pt2e_quantised_agrees_with_pytorch(tmp_path: Path, pytorch_models: Path) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / "quantised.pt2", "pixels", "2,3,16,16", "classes")
    found = prepared(path, tmp_path)
    assert assert_agrees(found)["classes"].shape == (2, 8, 7, 7)
    assert found.is_quantized


def test_torchscript_agrees_with_pytorch_where_it_is_trusted(tmp_path: Path, pytorch_models: Path) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / "net.ts", "pixels", IMAGE, "classes")
    assert assert_agrees(prepared(path, tmp_path, trust_models=True))["classes"].shape == (3, 5)


def test_an_image_may_be_given_in_nhwc_order(tmp_path: Path, pytorch_models: Path) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / "net.pt2", shape="3,16,16,3", input_data_formats="NHWC")
    assert_agrees(prepared(path, tmp_path))


@pytest.mark.parametrize(
    ("file", "source", "shape", "text"),
    [
        ("net.ts", "x", IMAGE, "TorchScript, which is code; --trust-model accepts"),
        ("pickle.pt", "x", IMAGE, "a pickle of torch.save, which holds no graph"),
        ("state.pt", "x", IMAGE, "a pickle of torch.save, which holds no graph"),
        ("net.pt2", "x", "3,1,16,16", "input 'x': shape 3,1,16,16, but the model reads ?,3,16,16"),
    ],
)
def test_refusals(tmp_path: Path, pytorch_models: Path, file: str, source: str, shape: str, text: str) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / file, source, shape)
    with pytest.raises(ModelError) as caught:
        prepared(path, tmp_path)
    assert text in str(caught.value) and "\n" not in str(caught.value)


BAD_STEPS = {
    "scale_0": "scale 0; a positive number is needed, so quantise it again",
    "zero_300": "zero point 300 lies outside of -128 to 127",
    "nan_channel": "scale nan; a positive number is needed",
}


@pytest.mark.parametrize("name", BAD_STEPS)
def test_scales_and_zero_points_that_make_no_sense(tmp_path: Path, pytorch_models: Path, name: str) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / f"{name}.pt2", "x", "2,3,16,16", "y")
    with pytest.raises(ModelError) as caught:
        prepared(path, tmp_path)
    assert BAD_STEPS[name] in str(caught.value) and "node '" in str(caught.value) and "\n" not in str(caught.value)


def test_tensors_are_counted(tmp_path: Path, pytorch_models: Path) -> None:
    path = write(tmp_path, "pytorch", pytorch_models / "net.pt2", shape=IMAGE, output="classes, more")
    with pytest.raises(ModelError, match="the model has 1 outputs, output_tensors names 2: they stand for those of"):
        prepared(path, tmp_path)


def test_a_truncated_file(tmp_path: Path, pytorch_models: Path) -> None:
    content = (pytorch_models / "net.pt2").read_bytes()
    (tmp_path / "cut.pt2").write_bytes(content[: len(content) // 2])
    path = write(tmp_path, "pytorch", tmp_path / "cut.pt2", shape=IMAGE)
    with pytest.raises(ModelError, match="truncated; get the file again"):
        prepared(path, tmp_path)


@pytest.mark.parametrize(("file", "trusted"), [("net.pt2", False), ("net.ts", True)])
def test_a_model_file_needs_no_deployment_file(tmp_path: Path, pytorch_models: Path, file: str, trusted: bool) -> None:
    """TorchScript says no more than how many inputs it has."""
    given = GivenModel(pytorch_models / file, (("", (2, 3, 16, 16)),), trusted=trusted)
    source = deployments.load(given)
    assert_agrees(prepare(source, "net", Fetcher(source, tmp_path)))
