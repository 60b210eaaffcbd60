"""Resolves the locations in a deployment file (zoo://, http(s)://, a path beside the file) to local, checked files.

Everything that is made or downloaded lies in the cache folder and can be deleted at any time:

    zoo/<key>.onnx         key: URL, ONNX version and the zoo's own source
    downloads/<key>        key: URL and expected checksum
    downloads/<key>.json   the server's ETag and Last-Modified

A download with a checksum is never asked for again; one without is asked for each time, and the server says whether it
changed. Mistakes are ConfigError lines that name the key in the deployment file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import onnx

import runtime
from farm import atomic_file
from farm.config.deployment import Deployment, Input
from farm.config.yaml_source import KeyPath
from farm.transport import file_digest
from runtime.errors import ConfigError, ModelError
from runtime.graph import Array

if TYPE_CHECKING:  # with the zoo a seventh of what a command imports, which is needed for a model from there alone
    import httpx

CACHE_FOLDER = Path("build/cache")
MAX_DOWNLOAD_BYTES = 2 * 1024**3
CONNECT_TIMEOUT_S = 20.0
READ_TIMEOUT_S = 60.0
TOTAL_TIMEOUT_S = 3600.0

Progress = Callable[[int, int | None], None]
SAMPLES = "samples"  # the folder of `quantize_within`, beside the deployment file


class Fetcher:
    """Fetches for one deployment file; `progress(received_bytes, total_bytes or None)` is called while downloading."""

    def __init__(
        self,
        deployment: Deployment,
        cache_folder: Path = CACHE_FOLDER,
        progress: Progress | None = None,
        max_download_bytes: int = MAX_DOWNLOAD_BYTES,
    ) -> None:
        self._deployment = deployment
        self.cache_folder = cache_folder
        self._progress = progress or (lambda received, total: None)
        self._max_download_bytes = max_download_bytes

    def model_file(self, model_name: str) -> Path:
        """The model's file (a SavedModel's folder), its checksum verified where the deployment file gives one."""
        model = self._deployment.models[model_name]
        key_path = ("models", model_name, "model_file_path")
        with self._errors_located_at(key_path):
            if model.platform == "tensorflow" and (folder := self._saved_model(model.model_file_path)):
                return _checked_folder(folder, model.model_sha256_checksum)
            return self._resolve(model.model_file_path, model.model_sha256_checksum)

    def weight_file(self, model_name: str) -> Path | None:
        """The file of the model's weights, verified likewise; None where the model's file holds them."""
        model = self._deployment.models[model_name]
        if model.weight_file_path is None:
            return None
        with self._errors_located_at(("models", model_name, "weight_file_path")):
            return self._resolve(model.weight_file_path, model.weight_sha256_checksum, "weight_sha256_checksum")

    def range_file(self, model_name: str) -> Path | None:
        """The file of ranges that a model is quantised by; None where the deployment file names none."""
        location = self._deployment.models[model_name].quantize_range_file
        if location is None:
            return None
        with self._errors_located_at(("models", model_name, "quantize_range_file")):
            return self._resolve(location, None)

    def sample_folder(self, model_name: str) -> Path:
        """The folder of samples that a model is quantised by, which need not be there."""
        return self._deployment.path.parent / (self._deployment.models[model_name].quantize_samples or SAMPLES)

    def validation_inputs(self, model_name: str, inputs: Sequence[Input]) -> dict[str, Array]:
        """The arrays of `validation_inputs_data` by input name; empty when the file names none."""
        locations = self._deployment.models[model_name].subgraph.validation_inputs_data
        arrays = {}
        for index, (location, tensor) in enumerate(zip(locations, inputs, strict=False)):
            key_path = ("models", model_name, "subgraphs", 0, "validation_inputs_data", index)
            with self._errors_located_at(key_path):
                arrays[tensor.name] = load_array(self._resolve(location, None), tensor)
        return arrays

    def _saved_model(self, location: str) -> Path | None:
        """The folder of a SavedModel; None where the location is none."""
        path = self._deployment.path.parent / location
        return path if "://" not in location and path.is_dir() else None

    def _resolve(self, location: str, checksum: str | None, checksum_key: str = "model_sha256_checksum") -> Path:
        """A local file of a location; `checksum_key` is where the deployment file says its checksum."""
        if location.startswith(("http://", "https://")):
            return self._download(location, checksum, checksum_key)
        if location.startswith("zoo://"):
            path = self._zoo_model(location)
        else:
            path = _local_file(self._deployment.path.parent / location)
        if checksum:
            _verify(location, file_digest.sha256(path), checksum, checksum_key)
        return path

    @contextlib.contextmanager
    def _errors_located_at(self, key_path: KeyPath) -> Iterator[None]:
        """Adds the deployment file's name, line and key to errors within the block."""
        try:
            yield
        except (ConfigError, ModelError) as error:
            raise self._deployment.error(key_path, str(error)) from None

    def _zoo_model(self, url: str) -> Path:
        path = self.cache_folder / "zoo" / f"{_key(url, onnx.__version__, _zoo_source_hash())}.onnx"
        if not path.exists():
            from runtime import zoo

            atomic_file.write(path, zoo.from_url(url).SerializeToString(deterministic=True))
        return path

    def _download(self, url: str, checksum: str | None, checksum_key: str) -> Path:
        path = self.cache_folder / "downloads" / _key(url, checksum or "")
        if checksum and path.exists() and file_digest.sha256(path) == checksum:
            return path
        import httpx

        conditions = {} if checksum else _read_conditions(path)
        try:
            self._receive(url, conditions, path, checksum, checksum_key)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            hint = f"; {checksum_key} would let the copy in the cache serve" if path.exists() else ""
            raise ConfigError(f"{url} cannot be fetched: {str(error) or type(error).__name__}{hint}") from None
        return path

    def _receive(
        self, url: str, conditions: dict[str, str], path: Path, checksum: str | None, checksum_key: str
    ) -> None:
        """Downloads unless the server says that nothing changed."""
        import httpx

        headers = {"Accept-Encoding": "identity", **conditions}
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=timeout) as response:
            if response.status_code == httpx.codes.NOT_MODIFIED and conditions:
                return
            if response.status_code != httpx.codes.OK:
                raise ConfigError(f"{url} cannot be fetched: HTTP status {response.status_code}")
            _conditions_file(path).unlink(missing_ok=True)  # never beside a file that they do not describe
            with atomic_file.replacing(path) as file:
                digest = self._copy(response, file)
                if checksum:
                    _verify(url, digest, checksum, checksum_key)
            atomic_file.write(_conditions_file(path), json.dumps(_conditions_of(response)).encode())

    def _copy(self, response: httpx.Response, file: BinaryIO) -> str:
        """Streams the body into the file; returns its SHA-256."""
        limit, deadline = self._max_download_bytes, time.monotonic() + TOTAL_TIMEOUT_S
        total = int(response.headers["content-length"]) if "content-length" in response.headers else None
        if total is not None and total > limit:
            raise ConfigError(f"{response.url} has {total} bytes, more than the limit of {limit}")
        digest, received = hashlib.sha256(), 0
        for chunk in response.iter_bytes():
            received += len(chunk)
            if received > limit:
                raise ConfigError(f"{response.url} sends more than the limit of {limit} bytes")
            if time.monotonic() > deadline:
                raise ConfigError(f"{response.url} took longer than {TOTAL_TIMEOUT_S:g} s")
            digest.update(chunk)
            file.write(chunk)
            self._progress(received, total)
        return digest.hexdigest()


def load_array(path: Path, tensor: Input) -> Array:
    """Reads a .npy file and checks it against the input: same shape, same element type, no NaN."""
    array = check_array(path, tensor)
    refuse_nan(path, array)
    return np.array(array)


def refuse_nan(path: Path, values: Array) -> None:
    """Raises ConfigError for NaN, which no input means; an infinity may be part of an attention mask."""
    if np.isnan(values).any():
        raise ConfigError(f"{path} holds NaN")


def check_array(path: Path, tensor: Input) -> Array:
    """Opens a .npy file and checks its shape and element type against the input; its elements are not read yet."""
    try:
        array = np.lib.format.open_memmap(_local_file(path), mode="r")
    except (ValueError, EOFError, OSError) as error:
        raise ConfigError(f"{path} is not a NumPy .npy file: {error}") from None
    if array.shape != tensor.shape or array.dtype != tensor.data_type:
        wanted = f"{tensor.data_type} {list(tensor.shape)}"
        raise ConfigError(f"{path} holds {array.dtype} {list(array.shape)}; the input {tensor.name!r} is {wanted}")
    return array


def content_key(path: Path) -> str:
    """A hash of a file, or of the names and contents of all files of a folder."""
    if not path.is_dir():
        return file_digest.sha256(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return _key(*(part for file in files for part in (str(file.relative_to(path)), file_digest.sha256(file))))


def _checked_folder(folder: Path, checksum: str | None) -> Path:
    if not (folder / "saved_model.pb").is_file():
        raise ConfigError(f"{folder} is not the folder of a SavedModel: it holds no saved_model.pb")
    if checksum:
        raise ConfigError(f"{folder} is a folder; model_sha256_checksum is a file's, leave it out")
    return folder


def _local_file(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"{path} does not exist")
    if not path.is_file():
        raise ConfigError(f"{path} is not a file")
    return path


def _verify(location: str, actual: str, expected: str, key: str) -> None:
    if actual != expected:
        raise ConfigError(f"{location} has the checksum {actual}, not {expected} as {key} says")


def _conditions_file(path: Path) -> Path:
    return path.with_suffix(".json")


def _conditions_of(response: httpx.Response) -> dict[str, str]:
    """The headers by which the next request asks whether the file changed."""
    pairs = (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified"))
    return {condition: response.headers[name] for condition, name in pairs if name in response.headers}


def _read_conditions(path: Path) -> dict[str, str]:
    """Reads the conditions that the last download stored; none (download again) when a file is gone or damaged."""
    try:
        conditions = json.loads(_conditions_file(path).read_text()) if path.exists() else {}
    except (OSError, ValueError):
        return {}
    return (
        {key: value for key, value in conditions.items() if isinstance(value, str)}
        if isinstance(conditions, dict)
        else {}
    )


def _zoo_source_hash() -> str:
    folder = Path(runtime.__path__[0]) / "zoo"
    return _key(*(path.read_text() for path in sorted(folder.glob("*.py"))))


def _key(*parts: str) -> str:
    """A file name from the hash of the parts; their lengths keep ("a", "bc") and ("ab", "c") apart."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
