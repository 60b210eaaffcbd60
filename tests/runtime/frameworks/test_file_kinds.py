"""The platform of a model file is told by its content; what is none is refused with what it is."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from runtime.errors import ModelError
from runtime.frameworks import file_kinds
from tests.farm.model.tiny_model import tiny_model


def zip_of(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return file.getvalue()


def field(number: int, content: bytes) -> bytes:
    """A field of bytes of a protobuf message."""
    tag = number << 3 | 2
    return (bytes([tag]) if tag < 0x80 else bytes([tag & 0x7F | 0x80, tag >> 7])) + bytes([len(content)]) + content


NODE = field(1, field(1, b"x") + field(2, b"Placeholder"))
ONNX = tiny_model().SerializeToString()
LAYER = "# a network\nname: 'net'\nlayer {\n  name: 'data'\n}\n"

MODELS = {
    "hdf5": (file_kinds.HDF5 + bytes(60), "keras"),
    "keras": (zip_of("metadata.json", "config.json", "model.weights.h5"), "keras"),
    "pt2": (zip_of("net/archive_format", "net/models/model.json"), "pytorch"),
    "older pt2": (zip_of("serialized_exported_program.json"), "pytorch"),
    "torchscript": (zip_of("net/data.pkl", "net/code/net.py"), "pytorch"),
    "tflite": (bytes(4) + file_kinds.TFLITE + bytes(60), "tflite"),
    "onnx": (ONNX, "onnx"),
    "truncated onnx": (ONNX[: len(ONNX) // 2], "onnx"),
    "graph": (NODE * 3 + field(4, b"\x08\x1a"), "tensorflow"),
    "graph of one node": (NODE + field(2, b""), "tensorflow"),
    "prototxt": (LAYER.encode(), "caffe"),
    "older prototxt": (b'input: "data"\ninput_dim: 1\n', "caffe"),
    "deployment file": ("library_name: größe\nmodels: {}\n".encode(), ""),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_platform_is_told_by_the_content(tmp_path: Path, name: str) -> None:
    content, platform = MODELS[name]
    (tmp_path / "model").write_bytes(content)
    assert file_kinds.platform_of(tmp_path / "model") == platform


OTHERS = {
    "empty": (b"", "an empty file"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS; `git lfs pull`"),
    "web page": (b"<!DOCTYPE html>", "a web page"),
    "zip": (zip_of("readme.txt"), "a zip file that is damaged, or holds neither"),
    "truncated zip": (file_kinds.ZIP + bytes(60), "a zip file that is damaged, or holds neither"),
    "pickle": (b"\x80\x02}q\x00.", "a pickle of Python"),
    "caffemodel": (field(1, b"net") + field(100, b"\x0a\x01x") * 2, "the weights of a Caffe network; name its .proto"),
    "older caffemodel": (field(1, b"net") + field(2, b"\x22\x01x") * 2, "the weights of a Caffe network; name its .p"),
    "saved_model.pb": (b"\x08\x01" + field(2, b"x"), "the graph of a SavedModel; name the folder"),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(90), "of no kind that is known"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_model_is_said(tmp_path: Path, name: str) -> None:
    content, text = OTHERS[name]
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        file_kinds.platform_of(path)
    assert str(caught.value).startswith(f"{path}: {text}") and "models that can be read: ONNX" in str(caught.value)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a folder, but not that of a SavedModel.*; it is empty$"):
        file_kinds.platform_of(tmp_path)
    (tmp_path / "net.onnx").touch()
    with pytest.raises(ModelError, match=r"; it holds net\.onnx$"):
        file_kinds.platform_of(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    assert file_kinds.platform_of(tmp_path) == "tensorflow"


def test_long_text_may_be_cut_within_a_character(tmp_path: Path) -> None:
    path = tmp_path / "net.yml"
    path.write_text("#" * (file_kinds.HEAD_BYTES - 1) + "ä\nmodels: {}\n")
    assert file_kinds.platform_of(path) == ""


CHECKED = ("hdf5", "keras", "pt2", "tflite", "onnx", "graph")
TOLD = {
    "hdf5": "this is a Keras model (platform: keras)",
    "keras": "this is a Keras model (platform: keras)",
    "pt2": "this is a PyTorch model (platform: pytorch)",
    "tflite": "this is a TFLite model (platform: tflite)",
    "onnx": "this is an ONNX model (platform: onnx)",
    "graph": "this is a graph of TensorFlow (platform: tensorflow)",
}


@pytest.mark.parametrize("platform", ["tensorflow", "keras", "tflite", "pytorch"])
@pytest.mark.parametrize("name", CHECKED)
def test_a_file_of_another_platform_is_refused(tmp_path: Path, platform: str, name: str) -> None:
    content, own = MODELS[name]
    path = tmp_path / "model"
    path.write_bytes(content)
    if own == platform:
        file_kinds.check(platform, path)
        return
    with pytest.raises(ModelError) as caught:
        file_kinds.check(platform, path)
    assert str(caught.value) == f"{path}: {file_kinds.WANTED[platform]}; {TOLD[name]}"


def test_a_damaged_zip_file_is_left_to_the_framework(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(file_kinds.ZIP + bytes(60))
    file_kinds.check("keras", path)
    file_kinds.check("pytorch", path)
    with pytest.raises(ModelError, match="this is a zip file that is damaged"):
        file_kinds.check("tensorflow", path)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ModelError, match="cannot be read"):
        file_kinds.check("tflite", tmp_path / "fifo")
    with pytest.raises(ModelError, match="cannot be read"):
        file_kinds.platform_of(tmp_path / "fifo")
