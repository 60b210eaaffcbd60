"""Tells what a model file is from its first bytes, so that one of another kind is refused before a framework starts."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from runtime.errors import ModelError
from runtime.regular_file import open_regular

HDF5, ZIP, TFLITE, LITE_OFFSET = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"TFL3", 4
HEAD_BYTES = 64
# What each platform's files begin with; those of TensorFlow with nothing that is theirs alone.
KINDS = {"keras": (HDF5, ZIP), "pytorch": (ZIP,)}
WANTED = {
    "keras": "a Keras model is a .keras or .h5 file",
    "pytorch": "a PyTorch model is a .pt2 file of torch.export, or TorchScript",
    "tensorflow": "a TensorFlow model is a frozen graph (.pb) or the folder of a SavedModel",
    "tflite": "a TFLite model is a .tflite file",
}


def check(platform: str, path: Path) -> None:
    """Raises ModelError where the file is not of the platform's kind, and says what it is if that can be told."""
    if path.is_dir():
        return
    head = _head(path)
    if _fits(platform, head) and not (platform == "tensorflow" and _is_onnx(path)):
        return
    kind = _kind(path, head)
    raise ModelError(f"{path}: {WANTED[platform]}; this is {kind}")


def _head(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None


def _fits(platform: str, head: bytes) -> bool:
    if platform == "tflite":
        return _is_tflite(head)
    if platform == "tensorflow":
        return bool(head) and not head.startswith((HDF5, ZIP)) and not _is_tflite(head)
    return head.startswith(KINDS[platform])


def _is_tflite(head: bytes) -> bool:
    return head[LITE_OFFSET : LITE_OFFSET + len(TFLITE)] == TFLITE


def _kind(path: Path, head: bytes) -> str:
    if not head:
        return "an empty file"
    if head.startswith(HDF5):
        return "an HDF5 file (platform: keras)"
    if head.startswith(ZIP):
        return "a zip file (platform: keras or pytorch)"
    if _is_tflite(head):
        return "a TFLite file (platform: tflite)"
    return "an ONNX model (platform: onnx)" if _is_onnx(path) else "none, or it is damaged"


def _is_onnx(path: Path) -> bool:
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except DecodeError:
        return False
    return bool(model.opset_import and model.graph.node and model.graph.output)
