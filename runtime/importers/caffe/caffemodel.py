"""Reads a .caffemodel: the weights of each layer."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.host.regular_file import open_regular
from runtime.importers.caffe.schema import WeightsParameter

MAX_BYTES = 2**31 - 1  # protobuf's own limit for one message
MAX_AXES = 32  # Caffe's own limit for one blob

Weights = Mapping[str, tuple[Array, ...]]


def load_caffemodel(path: Path) -> Weights:
    """Layer name -> its blobs, as float32; ModelError where the file is none, is truncated, or a blob is damaged."""
    data = _content(path)
    network = WeightsParameter()
    try:
        network.ParseFromString(data)
    except DecodeError:
        raise ModelError(f"{path}: {_kind(data)}") from None
    weights = {name: _arrays(path, name, blobs) for name, blobs in _layers(network) if blobs}
    if not weights:
        raise ModelError(f"{path}: {_kind(data)}")
    return weights


def _content(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: larger than {MAX_BYTES} bytes, the limit of a protobuf message")
    return data


def _kind(data: bytes) -> str:
    """What is wrong with a file that holds no weights."""
    if b"\0" not in data[:4096] and b"{" in data[:4096]:
        return "text; weight_file_path names the binary .caffemodel, and model_file_path the .prototxt"
    try:
        if onnx.load_model_from_string(data).graph.node:
            return "an ONNX model; write platform: onnx, and this file as model_file_path"
    except DecodeError:
        return "not a .caffemodel, or truncated; get the file again"
    return "not a .caffemodel, or truncated: no layer in it has weights"


def _layers(network: Any) -> Iterator[tuple[str, Any]]:
    """Name and blobs of every layer of any generation."""
    for layer in network.layers:
        yield layer.name or layer.layer.name, layer.blobs or layer.layer.blobs
    for layer in network.layer:
        yield layer.name, layer.blobs


def _arrays(path: Path, name: str | bytes, blobs: Any) -> tuple[Array, ...]:
    where = f"{path}: layer {name!r}"
    if isinstance(name, bytes) or not name.isprintable():
        raise ModelError(f"{where}: damaged: its name cannot be printed")
    return tuple(_array(f"{where}: blob {index}", blob) for index, blob in enumerate(blobs))


def _array(where: str, blob: Any) -> Array:
    shape = tuple(blob.shape.dim) if blob.HasField("shape") else (blob.num, blob.channels, blob.height, blob.width)
    kind, parts = (np.dtype("<f8"), blob.double_data) if blob.double_data else (np.dtype("<f4"), blob.data)
    unknown = sorted({field.field_number for field in UnknownFieldSet(blob)})
    if unknown:
        raise ModelError(f"{where}: its fields {unknown} are unknown; float and double blobs of Caffe 1.0 are read")
    data = b"".join(parts)
    if len(shape) > MAX_AXES or min(shape, default=1) < 0 or math.prod(shape) * kind.itemsize != len(data):
        shown = ",".join(map(str, shape[:MAX_AXES]))
        raise ModelError(f"{where}: damaged: {len(data)} bytes of {kind.name} are not of shape {shown}")
    return np.frombuffer(data, kind).reshape(shape).astype(np.float32, copy=False)
