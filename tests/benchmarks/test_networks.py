"""The benchmarks write a deployment file for each network, in a scratch folder that leaves no trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.networks import light_network, zoo_names, zoo_networks
from benchmarks.scratch import POCL_CACHE, scratch
from runtime import zoo


def test_every_network_of_the_zoo_has_a_deployment_file() -> None:
    assert sorted(zoo_names()) == sorted(zoo.names())


def test_winograd_has_a_library_of_its_own() -> None:
    with zoo_networks(["resnet50"]) as (network,):
        plain, tiled = network.deployment(), network.deployment(4)
    assert (plain.library_name, plain.models["resnet50"].winograd) == ("resnet50", 0)
    assert (tiled.library_name, tiled.models["resnet50"].winograd) == ("resnet50_winograd4", 4)


def test_a_network_of_another_size_has_its_shapes() -> None:
    with zoo_networks(["llama_small_decode?size=8&width=0.1"]) as (network,):
        (model,) = network.deployment().models.values()
    assert [each.shape for each in model.subgraph.inputs[:2]] == [(1, 1), (1, 8, 16)]


@pytest.mark.slow
def test_a_network_of_images_takes_a_batch() -> None:
    with zoo_networks(["squeezenet_v11?size=64"], batch=8) as (network,):
        (model,) = network.deployment().models.values()
    assert [each.shape for each in model.subgraph.inputs] == [(8, 3, 64, 64)]
    assert [each.shape for each in model.subgraph.outputs] == [(8, 1000)]


@pytest.mark.slow
def test_the_onnx_package_s_networks_get_deployment_files() -> None:
    with light_network("squeezenet", zoo.light_models()["squeezenet"]) as network:
        settings = network.deployment().models["squeezenet"]
        assert network.model_file().is_file()
    assert [each.shape for each in settings.subgraph.inputs] == [(1, 3, 224, 224)]


def test_scratch_leaves_no_trace() -> None:
    before = (Path.cwd(), os.environ.get(POCL_CACHE))
    with scratch() as folder:
        assert Path.cwd() == folder.resolve()
        assert os.environ[POCL_CACHE].startswith(str(folder))
        assert not list(folder.glob("build/*/opencl"))
    assert (Path.cwd(), os.environ.get(POCL_CACHE)) == before
    assert not folder.exists()
