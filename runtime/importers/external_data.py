"""Bytes of tensors that lie in files beside a model: found when the model is loaded, read tensor by tensor."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.host.regular_file import open_regular


@dataclasses.dataclass(frozen=True)
class ExternalData:
    """Where the bytes of a tensor lie: an absolute path, and the first byte and their number in the file."""

    path: Path
    offset: int
    length: int

    @property
    def entries(self) -> Mapping[str, str]:
        """The same as a tensor notes it."""
        return {"location": str(self.path), "offset": str(self.offset), "length": str(self.length)}


def with_data(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    """The tensor with its bytes, the same one where it has them; ModelError where they were not found or are gone."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return tensor
    read = onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name)
    read.raw_data = _read(_place(tensor, name), name).tobytes()
    return read


def array_of(tensor: onnx.TensorProto, name: str) -> Array | None:
    """The elements of a tensor that lies in another file, read without a copy, where they are of NumPy's own types.

    None for other tensors. ValueError where the bytes do not fit the shape; else as `with_data`.
    """
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if dtype.kind not in "fiub" or dtype.isbuiltin != 1:
        return None
    elements = _read(_place(tensor, name), name).view(dtype.newbyteorder("<"))
    return elements.astype(dtype, copy=False).reshape(tensor.dims)


def _place(tensor: onnx.TensorProto, name: str) -> ExternalData:
    fields = {entry.key: entry.value for entry in tensor.external_data}
    path = Path(fields.get("location", ""))
    if not path.is_absolute():  # load_onnx finds them; it checks that they lie beside the model
        raise ModelError(f"tensor '{name}': its data lies in another file, which was not loaded")
    return ExternalData(path, int(fields["offset"]), int(fields["length"]))


def _read(place: ExternalData, name: str) -> Array:
    """The bytes, in an array of NumPy's, which has large pages of memory: small ones take as long as the reading."""
    try:
        data = np.empty(place.length, np.uint8)
        with open_regular(place.path) as file:
            file.seek(place.offset)
            count = file.readinto(data.data)
    except MemoryError:
        raise ModelError(f"tensor '{name}': this machine has no room for its {place.length} bytes") from None
    except OSError as error:
        raise ModelError(f"tensor '{name}': {place.path}: cannot be read: {error.strerror}") from None
    if count < place.length:
        raise ModelError(f"tensor '{name}': {place.path}: has become shorter since the model was loaded")
    data.flags.writeable = False
    return data
