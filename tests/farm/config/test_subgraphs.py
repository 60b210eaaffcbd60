"""A model of several subgraphs is a model for each; every mistake names the subgraph as it was written."""

import re
from pathlib import Path

import pytest

from farm.config import deployment
from farm.config.deployment import Deployment
from runtime.errors import ConfigError

FILE = """\
library_name: tiny
target_abis: host
models:
  net:
    platform: onnx
    model_file_path: net.onnx
    runtime: cpu
    subgraphs:
{entries}
  net_taken: {{platform: onnx, model_file_path: other.onnx, runtime: gpu}}
"""
BOX, MASKS = "{input_tensors: image, input_shapes: 1, output_tensors: box}", "{output_tensors: [mask/a:0, mask/b:0]}"


def load(tmp_path: Path, *entries: str) -> Deployment:
    path = tmp_path / "net.yml"
    path.write_text(FILE.format(entries="\n".join(f"      - {entry}" for entry in entries)))
    return deployment.load(path)


def refusal(tmp_path: Path, *entries: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, *entries)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{tmp_path}/")


def test_each_subgraph_is_a_model_with_the_other_keys_of_its_model(tmp_path: Path) -> None:
    models = load(tmp_path, BOX, MASKS).models
    assert list(models) == ["net_box", "net_mask_a_mask_b", "net_taken"]
    assert [len(model.subgraphs) for model in models.values()] == [1, 1, 1]
    assert (
        models["net_box"].model_copy(update={"subgraphs": models["net_mask_a_mask_b"].subgraphs})
        == (models["net_mask_a_mask_b"])
    )
    assert [output.name for output in models["net_mask_a_mask_b"].subgraph.outputs] == ["mask/a:0", "mask/b:0"]


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("{name: head, output_tensors: box}", "net_head"),
        (f"{{output_tensors: {'x' * 61}}}", "net_2"),
        ("{input_shapes: 5}", "net_2"),
        ("{output_tensors: ['/:0']}", "net_2"),
    ],
)
def test_name_of_a_subgraph(tmp_path: Path, entry: str, name: str) -> None:
    assert list(load(tmp_path, BOX, entry).models) == ["net_box", name, "net_taken"]


def test_a_single_subgraph_leaves_its_model_the_name(tmp_path: Path) -> None:
    assert list(load(tmp_path, BOX).models) == ["net", "net_taken"]
    assert refusal(tmp_path, "{name: head}") == (
        "net.yml:9: models.net.subgraphs[0].name: it is for one of several subgraphs; leave it out"
    )


def test_mistakes_name_the_subgraph_as_it_was_written(tmp_path: Path) -> None:
    own = "give this one a name of its own, as in name: head"
    assert refusal(tmp_path, BOX, MASKS, BOX) == (
        f"net.yml:11: models.net.subgraphs[2]: 'net_box' is the name of models.net.subgraphs[0] already; {own}"
    )
    assert refusal(tmp_path, BOX, "{name: taken}") == (
        f"net.yml:10: models.net.subgraphs[1]: 'net_taken' is the name of models.net_taken already; {own}"
    )
    for name, shown in (("a/b", "a/b"), ("", ""), (f"{'x' * 101}", "x" * 101)):
        assert refusal(tmp_path, BOX, f"{{name: {name}}}").startswith(
            f"net.yml:10: models.net.subgraphs[1].name: '{shown}' cannot name a file"
        )
    assert "net.yml:10: models.net.subgraphs[1]: 'net_xxx" in refusal(tmp_path, BOX, f"{{name: {'x' * 99}}}")
    assert refusal(tmp_path, BOX, "{output_tensor: a}") == (
        "net.yml:10: models.net.subgraphs[1].output_tensor: unknown key, did you mean 'output_tensors'?"
    )
    assert refusal(tmp_path, "[]", "{output_tensors: {a: b}}") == (
        "net.yml:9: models.net.subgraphs[0]: a mapping (key: value) is expected, not a list (and 1 more)"
    )


def test_subgraphs_of_two_models_have_different_names(tmp_path: Path) -> None:
    path = tmp_path / "net.yml"
    path.write_text("models:\n  a: {subgraphs: [{name: b_c}, {name: d}]}\n  a_b: {subgraphs: [{name: d}, {name: c}]}\n")
    with pytest.raises(
        ConfigError, match=re.escape("net.yml:3: models.a_b.subgraphs[1]: 'a_b_c' is the name of models.a.")
    ):
        deployment.load(path)


def test_a_mistake_beside_the_subgraphs_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "net.yml"
    path.write_text(FILE.format(entries=f"      - {BOX}\n      - {MASKS}").replace("runtime: cpu", "runtime: tpu"))
    with pytest.raises(ConfigError) as caught:
        deployment.load(path)
    assert str(caught.value) == f"{path}:7: models.net.runtime: 'tpu' is no runtime; write cpu, gpu or cpu+gpu"
    path.write_text(path.read_text().replace("runtime: tpu", "").replace("library_name: tiny", ""))
    with pytest.raises(ConfigError) as caught:
        deployment.load(path)
    assert "and so is models.net.runtime" in str(caught.value)


def test_a_note_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "net.yml"
    text = FILE.format(entries=f"      - {BOX}\n      - {MASKS}")
    path.write_text(text.replace("runtime: cpu", "runtime: cpu\n    validation_threshold: {GPU: 0.9}"))
    (note,) = deployment.load(path).notes
    assert note == f"{path}:8: models.net.validation_threshold.GPU: has no effect, it runs on cpu"
