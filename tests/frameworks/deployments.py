"""Deployment files of the small models, and what farm makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from farm.config import deployment
from farm.jobs.models.prepare import Prepared, TestData, prepare
from farm.model.fetch import Fetcher
from runtime.oracle.evaluate import evaluate

IMAGE = "1,16,16,3"
OVER_TIME = {"lstm": True, "bidirectional": True, "gru": False, "gru_reset_before": False, "simple": False}  # as LSTM
FUNCTIONS_AND_LAYERS = ("erfc", "gelu", "gelu_tanh", *OVER_TIME)  # LiteRT has all but the first


def write(
    folder: Path,
    platform: str,
    model: Path,
    source: str = "image",
    shape: str = IMAGE,
    output: str = "scores",
    **more: str,
) -> Path:
    """A deployment file in the folder; `more` are keys of the model, or of the subgraph when they start so."""
    inner = ("input_", "output_", "check_")
    subgraph = "".join(f"\n        {key}: {value}" for key, value in more.items() if key.startswith(inner))
    keys = "".join(f"\n    {key}: {value}" for key, value in more.items() if not key.startswith(inner))
    path = folder / "net.yml"
    path.write_text(f"""library_name: mine
target_abis: [host]
models:
  net:
    platform: {platform}
    model_file_path: {model}
    subgraphs:
      - input_tensors: [{source}]
        input_shapes: ["{shape}"]
        output_tensors: [{output}]{subgraph}
    runtime: cpu+gpu
    data_type: fp32_fp32{keys}
""")
    return path


def prepared(file: Path, cache: Path, check: bool = False, trust_models: bool = False) -> Prepared:
    """The model of a deployment file, converted."""
    found = deployment.load(file, trust_models)
    return prepare(found, "net", Fetcher(found, cache), check)


def assert_agrees(found: Prepared) -> dict[str, np.ndarray]:
    """The converted graph computes what the framework does, and the outputs depend on the input."""
    data = TestData(found, {})
    assert found.framework
    computed = evaluate(found.graph, data.inputs)
    for name, value in data.expected.items():
        np.testing.assert_allclose(computed[name], value, rtol=1e-4, atol=1e-6)
        assert value.std() > 1e-4
    return data.expected
