"""Finds samples in a folder: one file for each input of a model and sample, named as MACE users know it.

A file's name begins with the input's, every character of which that is no letter or digit is `_`; what follows names
the sample. So `data_cat.npy` and `size_cat.npy` are the sample `_cat` of the inputs `data` and `size`. A file ending in
`.npy` is NumPy's; any other holds the elements alone, row by row, little-endian, as the input's type. Hidden files,
folders, and files that begin with no input's name are passed over. Where none begins so, and the model has one input,
each `.npy` file is a sample.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from farm.config.deployment import Input
from farm.model import fetch
from runtime.errors import ConfigError
from runtime.graph import Array

NUMPY = ".npy"


@dataclasses.dataclass(frozen=True)
class Sample:
    """One set of inputs: a file for each, by the input's name."""

    name: str
    files: Mapping[str, Path]


def find_samples(folder: Path, inputs: Sequence[Input], option: str = "--input_dir") -> tuple[Sample, ...]:
    """The samples of a folder, in the order of their names; `option` named the folder.

    Raises ConfigError where there is none, where one lacks a file, or where a file is not as large as its input.
    """
    if not folder.is_dir():
        raise ConfigError(f"{option} {folder}: no such folder")
    paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = _by_prefix(paths, inputs, option) or _unnamed(paths, inputs)
    if not found:
        names = " and ".join(f"{file_prefix(tensor.name)}_NAME.npy" for tensor in inputs)
        raise ConfigError(f"{option} {folder}: no sample is there; a sample NAME is {names}")
    samples = tuple(Sample(name, files) for name, files in found.items())
    for sample in samples:
        _check(f"{option} {folder}", sample, inputs)
    return samples


def _by_prefix(paths: Sequence[Path], inputs: Sequence[Input], option: str) -> dict[str, dict[str, Path]]:
    found: dict[str, dict[str, Path]] = {}
    for path in paths:
        if tensor := _owner(path, inputs):
            files = found.setdefault(path.name.removeprefix(file_prefix(tensor.name)).removesuffix(NUMPY), {})
            if tensor.name in files:
                raise ConfigError(f"{option}: {files[tensor.name]} and {path} are the same input of one sample")
            files[tensor.name] = path
    return found


def _unnamed(paths: Sequence[Path], inputs: Sequence[Input]) -> dict[str, dict[str, Path]]:
    """NumPy's files by their own names; none where they would have to say whose they are."""
    return {path.stem: {inputs[0].name: path} for path in paths if len(inputs) == 1 and path.suffix == NUMPY}


def file_prefix(tensor_name: str) -> str:
    """A tensor's name at the beginning of a file's."""
    return re.sub(r"[^A-Za-z0-9]", "_", tensor_name)


def read_sample(sample: Sample, inputs: Sequence[Input]) -> dict[str, Array]:
    """The arrays of a sample by the inputs' names; ConfigError where a file does not fit its input."""
    return {tensor.name: _read(sample.files[tensor.name], tensor) for tensor in inputs}


def _owner(path: Path, inputs: Sequence[Input]) -> Input | None:
    """The input with the longest name that a file's name begins with."""
    owners = [tensor for tensor in inputs if path.name.startswith(file_prefix(tensor.name))]
    return max(owners, key=lambda tensor: len(tensor.name), default=None)


def _check(where: str, sample: Sample, inputs: Sequence[Input]) -> None:
    for tensor in inputs:
        path = sample.files.get(tensor.name)
        if path is None:
            there = ", ".join(sorted(file.name for file in sample.files.values()))
            wanted = f"{file_prefix(tensor.name)}{sample.name}"
            raise ConfigError(f"{where}: {wanted} is missing, the input {tensor.name!r} beside {there}")
        if path.suffix == NUMPY:
            fetch.check_array(path, tensor)
        else:
            _check_size(path, tensor)


def _check_size(path: Path, tensor: Input) -> None:
    size_bytes, wanted_bytes = path.stat().st_size, int(np.prod(tensor.shape)) * np.dtype(tensor.data_type).itemsize
    if size_bytes != wanted_bytes:
        wanted = f"{tensor.data_type} {list(tensor.shape)}, {wanted_bytes} bytes"
        raise ConfigError(f"{path} holds {size_bytes} bytes; the input {tensor.name!r} is {wanted}")


def _read(path: Path, tensor: Input) -> Array:
    if path.suffix == NUMPY:
        return fetch.load_array(path, tensor)
    _check_size(path, tensor)
    values = np.fromfile(path, np.dtype(tensor.data_type).newbyteorder("<")).reshape(tensor.shape)
    fetch.refuse_nan(path, values)
    return values.astype(tensor.data_type)
