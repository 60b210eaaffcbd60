"""A file of another kind is refused by its first bytes, and the message says which platform it is for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.errors import ModelError
from runtime.frameworks import file_kinds
from tests.farm.model.tiny_model import tiny_model

CONTENTS = {
    "keras": file_kinds.HDF5 + bytes(60),
    "zip": file_kinds.ZIP + bytes(60),
    "tflite": bytes(4) + file_kinds.TFLITE + bytes(60),
    "onnx": tiny_model().SerializeToString(),
    "text": b"version https://git-lfs.github.com/spec/v1",
    "empty": b"",
}
GOOD = {("keras", "keras"), ("keras", "zip"), ("pytorch", "zip"), ("tflite", "tflite"), ("tensorflow", "text")}
TOLD = {
    "keras": "this is an HDF5 file (platform: keras)",
    "zip": "this is a zip file (platform: keras or pytorch)",
    "tflite": "this is a TFLite file (platform: tflite)",
    "onnx": "this is an ONNX model (platform: onnx)",
    "text": "this is none, or it is damaged",
    "empty": "this is an empty file",
}


@pytest.mark.parametrize("platform", ["tensorflow", "keras", "tflite", "pytorch"])
@pytest.mark.parametrize("content", CONTENTS)
def test_kinds(tmp_path: Path, platform: str, content: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(CONTENTS[content])
    if (platform, content) in GOOD:
        file_kinds.check(platform, path)
        return
    with pytest.raises(ModelError) as caught:
        file_kinds.check(platform, path)
    assert str(caught.value) == f"{path}: {file_kinds.WANTED[platform]}; {TOLD[content]}"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ModelError, match="cannot be read"):
        file_kinds.check("tflite", tmp_path / "fifo")
