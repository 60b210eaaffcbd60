"""Tells what a model file is from its content: which platform reads it, or what else it is."""

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from runtime.errors import ModelError
from runtime.host.regular_file import open_regular

HDF5, ZIP, TFLITE, LITE_OFFSET = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"TFL3", 4
HEAD_BYTES = 4096
MAX_FIELDS = 100_000
MAX_LISTED = 4
SAVED_MODEL = "saved_model.pb"

READ = "ONNX, TFLite, Keras, TensorFlow (a frozen graph or a SavedModel), PyTorch (.pt2) and Caffe (.prototxt)"
TITLES = {
    "caffe": "a Caffe network",
    "keras": "a Keras model",
    "onnx": "an ONNX model",
    "pytorch": "a PyTorch model",
    "tensorflow": "a graph of TensorFlow",
    "tflite": "a TFLite model",
}
WANTED = {
    "keras": "a Keras model is a .keras or .h5 file",
    "pytorch": "a PyTorch model is a .pt2 file of torch.export, or TorchScript",
    "tensorflow": "a TensorFlow model is a frozen graph (.pb) or the folder of a SavedModel",
    "tflite": "a TFLite model is a .tflite file",
}
# What else people name by mistake: the bytes that it begins with, and what it is.
OTHERS = {
    b"version https://git-lfs": "a pointer of Git LFS; `git lfs pull` fetches the model itself",
    b"<!DOCTYPE": "a web page; download the model itself",
    b"<html": "a web page; download the model itself",
    b"\x1f\x8b": "compressed by gzip; unpack it",
    b"\x80": "a pickle of Python, which holds no graph; save a PyTorch model with torch.export.save",
    b"\x93NUMPY": "a NumPy array",
    b"FARMPLAN": "a plan that farm made; `farm inspect` shows what it holds",
    b"FARMTUNE": "tuned parameters that farm made",
    b"FARMKERN": "compiled kernels that farm made",
}
_CAFFE = re.compile(rb"^\s*(layers?|input_shape|input_param)\s*:?\s*\{|^\s*(input|input_dim|force_backward)\s*:", re.M)
_VARINT, _BYTES = 0, 2  # protobuf's wire types
_OF_ONNX, _OF_GRAPH_DEF = {(1, _VARINT), (8, _BYTES)}, {1, 2, 3, 4, 5}


def platform_of(path: Path) -> str:
    """The platform of a model; empty for a text that is no network, such as a deployment file.

    Raises:
        ModelError: the file cannot be read, or is no model; the text says what it is, where that can be told.
    """
    if path.is_dir():
        return _platform_of_folder(path)
    head = _head(path)
    if platform := _platform(path, head):
        return platform
    if _is_text(head) and not _other(head):
        return ""
    raise ModelError(f"{path}: {_described(path, head)}; models that can be read: {READ}")


def check(platform: str, path: Path) -> None:
    """Raises ModelError where the file is not of the platform's kind, and says what it is if that can be told."""
    if path.is_dir():
        return
    head = _head(path)
    found = _platform(path, head)
    if found == platform or (not found and platform in ("keras", "pytorch") and head.startswith(ZIP)):
        return  # what is wrong with a zip file the framework's program can tell better
    kind = f"{TITLES[found]} (platform: {found})" if found else _described(path, head)
    raise ModelError(f"{path}: {WANTED[platform]}; this is {kind}")


def _platform_of_folder(folder: Path) -> str:
    if (folder / SAVED_MODEL).is_file():
        return "tensorflow"
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    more = ", ..." if len(names) > MAX_LISTED else ""
    held = f"it holds {', '.join(names[:MAX_LISTED])}{more}" if names else "it is empty"
    raise ModelError(f"{folder}: a folder, but not that of a SavedModel, which has a {SAVED_MODEL}; {held}")


def _platform(path: Path, head: bytes) -> str:
    """The platform whose kind of file this is, empty for none."""
    if head.startswith(HDF5):
        return "keras"
    if head.startswith(ZIP):
        return _platform_of_zip(path)
    if head[LITE_OFFSET : LITE_OFFSET + len(TFLITE)] == TFLITE:
        return "tflite"
    if _is_text(head):
        return "caffe" if _CAFFE.search(head) else ""
    return _platform_of_protobuf(path)


def _platform_of_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return ""
    if "config.json" in names:
        return "keras"
    inner = {PurePosixPath(name).parts[1:2] for name in names}
    return "pytorch" if {("data.pkl",), ("models",)} & inner or "serialized_exported_program.json" in names else ""


def _platform_of_protobuf(path: Path) -> str:
    """ONNX, or a graph of TensorFlow: told by the fields of the outermost message."""
    fields = _fields_of(path)
    if (7, _BYTES) in fields and _OF_ONNX & fields.keys():
        return "onnx"
    nodes = fields[1, _BYTES] and {number for number, _ in fields} <= _OF_GRAPH_DEF
    return "tensorflow" if nodes and not _is_caffemodel(fields) else ""


def _is_caffemodel(fields: Counter[tuple[int, int]]) -> bool:
    """Whether it has one name, and layers of either version."""
    return fields[1, _BYTES] == 1 and (fields[100, _BYTES] > 0 or fields[2, _BYTES] > 1)


def _described(path: Path, head: bytes) -> str:
    """What a file is that no platform reads."""
    if not head:
        return "an empty file"
    if head.startswith(ZIP):
        return "a zip file that is damaged, or holds neither a Keras nor a PyTorch model"
    if other := _other(head):
        return other
    if _is_text(head):
        return "a text"
    fields = _fields_of(path)
    if _is_caffemodel(fields):
        return "the weights of a Caffe network; name its .prototxt"
    if fields[1, _VARINT] and fields[2, _BYTES]:
        return "the graph of a SavedModel; name the folder that it lies in"
    return "of no kind that is known, or it is damaged"


def _other(head: bytes) -> str:
    return next((what for start, what in OTHERS.items() if head.startswith(start)), "")


def _head(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None


def _is_text(head: bytes) -> bool:
    """Whether it is UTF-8 without control characters; the last character may be cut."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3 or len(head) < HEAD_BYTES:
            return False
        text = head[: error.start].decode()
    return bool(text) and all(character.isprintable() or character in "\t\n\r\f\ufeff" for character in text)


def _fields_of(path: Path) -> Counter[tuple[int, int]]:
    """How often the outermost message of a protobuf file has a field of a number and wire type, up to its damage."""
    with open_regular(path) as file:
        return Counter(_fields(file))


def _fields(file: BinaryIO) -> Iterator[tuple[int, int]]:
    size = file.seek(0, 2)
    file.seek(0)
    for _ in range(MAX_FIELDS):
        tag = _varint(file)
        if tag is None or file.tell() > size:
            return
        yield tag >> 3, tag & 7
        value = _varint(file) if tag & 7 in (_VARINT, _BYTES) else {1: 8, 5: 4}.get(tag & 7)
        if value is None:
            return
        file.seek(0 if tag & 7 == _VARINT else value, 1)


def _varint(file: BinaryIO) -> int | None:
    value = 0
    for index in range(10):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << (7 * index)
        if byte[0] < 0x80:
            return value
    return None
