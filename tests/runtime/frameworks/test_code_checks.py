"""Models that carry code are told by their description alone; no framework is needed to refuse them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ModelError
from runtime.frameworks.programs import keras_config, pytorch_archive
from runtime.frameworks.request import FrameworkRequest

OWN = {"class_name": "Conv2D", "module": "keras.layers", "config": {"name": "conv"}, "registered_name": None}


def keras(config: Any) -> None:
    keras_config.check_code(config, FrameworkRequest("keras", "m.keras", (), ()))


@pytest.mark.parametrize("config", [OWN, {"layers": [OWN, {"dtype": {"module": "builtins", "class_name": "dict"}}]}])
def test_keras_layers_of_its_own_are_no_code(config: Any) -> None:
    keras(config)


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ({"class_name": "Lambda", "module": "keras.layers", "config": {"name": "twice"}}, "a layer Lambda 'twice'"),
        ({"class_name": "__lambda__", "config": {"value": "4wEA"}}, "a layer __lambda__ ''"),
        ({"class_name": "TFSMLayer", "module": "keras.layers", "config": None}, "a layer TFSMLayer ''"),
        ({"class_name": "function", "module": "os", "config": "system"}, "'function' of the module 'os'"),
        ({"class_name": "Net", "module": "keras_evil.net"}, "'Net' of the module 'keras_evil.net'"),
        ({"class_name": "Net", "module": 7}, "'Net' of the module 7"),
        ({"class_name": "Net", "module": "mine", "registered_name": "a>Net"}, "the class 'Net' of the user's own"),
    ],
)
def test_keras_code_is_found_wherever_it_stands(part: Any, found: str) -> None:
    with pytest.raises(ModelError) as caught:
        keras({"config": {"layers": [OWN, {"config": {"inner": [part]}}]}})
    assert f"m.keras: holds {found}, which is code; --trust-model accepts" in str(caught.value)


def archive(folder: Path, entries: dict[str, str], trusted: bool = False) -> str:
    path = folder / "model"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in entries.items():
            file.writestr(name, text)
    return pytorch_archive.check(FrameworkRequest("pytorch", str(path), (), (), trusted))


def node(target: str, expression: str = "2*s0") -> dict[str, str]:
    graph = {"nodes": [{"target": target, "inputs": []}], "sizes": {"as_expr": {"expr_str": expression}}}
    return {"net/models/model.json": json.dumps({"graph_module": {"graph": graph}})}


@pytest.mark.parametrize(
    ("target", "expression"),
    [
        ("torch.ops.aten.conv2d.default", "s77"),
        ("torch.ops.aten.relu.default", "Symbol('s77', positive=True, integer=True)"),
        ("_operator.getitem", "FloorDiv(s0 + 1, 2)"),
    ],
)
def test_exported_operators_are_no_code(tmp_path: Path, target: str, expression: str) -> None:
    assert archive(tmp_path, node(target, expression)) == "exported"


@pytest.mark.parametrize(
    "entries",
    [
        node("torch.os.system"),
        node("torch.ops.evil.run.default"),
        node("torch.ops.aten.relu.default", "__import__('os').system('id')"),
        node("torch.ops.aten.relu.default", "exit()"),
        node("torch.ops.aten.relu.default", "(1).bit_length"),
        node("torch.ops.aten.relu.default") | {"net/data/constants/opaque_obj_0": "pickle"},
        node("torch.ops.aten.relu.default") | {"net/data/aotinductor/model.so": "ELF"},
        {"net/code/__torch__.py": "", "net/data.pkl": ""},
    ],
)
def test_pytorch_code_needs_trust(tmp_path: Path, entries: dict[str, str]) -> None:
    with pytest.raises(ModelError, match="--trust-model accepts that of an author whom you trust"):
        archive(tmp_path, entries)
    assert archive(tmp_path, entries, trusted=True) in ("exported", "script")


def test_a_pickle_holds_no_graph_however_trusted(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a pickle of torch\.save, which holds no graph"):
        archive(tmp_path, {"net/data.pkl": ""}, trusted=True)


@pytest.mark.parametrize("entries", [{"notes.txt": ""}, {"net/models/model.json": "{"}])
def test_other_zip_files_are_refused(tmp_path: Path, entries: dict[str, str]) -> None:
    with pytest.raises(ModelError, match=r"no \.pt2 and no TorchScript"):
        archive(tmp_path, entries)
