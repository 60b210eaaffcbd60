"""The files that a job needs on its host: a deployment file for its models alone, and all that this names.

Models of the zoo are made on the host; downloads are made here. Artifacts of earlier tuning go too, so that a row is
what it would be here.
"""

from __future__ import annotations

import dataclasses
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import yaml
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from farm.config.deployment import Deployment
from farm.model import fetch
from farm.transport import file_digest
from farm.workspace import Workspace
from runtime.errors import ConfigError
from runtime.importers.onnx_file import tensors_of

DEPLOYMENT = "model.yml"
ARTIFACTS = ("opencl", "cpu")


@dataclasses.dataclass(frozen=True)
class JobFiles:
    """Files of a job: path in its folder -> hash, and where the file of each hash is here."""

    hashes: Mapping[str, str]
    sources: Mapping[str, Path]

    @classmethod
    def of(cls, files: Mapping[str, Path]) -> JobFiles:
        """Those of paths in the job's folder."""
        hashes = {name: file_digest.sha256(path) for name, path in files.items()}
        return cls(hashes, {hashes[name]: path for name, path in files.items()})

    def united(self, other: JobFiles) -> JobFiles:
        """These and others."""
        return JobFiles({**self.hashes, **other.hashes}, {**self.sources, **other.sources})


def files_of_models(deployment: Deployment, models: Sequence[str], scratch: Path, place: str = "") -> dict[str, Path]:
    """All files of some models of a deployment file: path in the job's folder -> file; artifacts are not among them.

    Args:
        deployment: the deployment file.
        models: models of it; the host reads a deployment file with these alone.
        scratch: a folder that lasts as long as the job; what is written for it goes there.
        place: the folder in the job's folder that they lie in, with its slash.

    Raises:
        ConfigError: a file is missing, or a model cannot be sent.
    """
    fetcher, files = fetch.Fetcher(deployment), dict[str, Path]()
    sent = {model: _sent_model(deployment, model, fetcher, files) for model in models}
    written = _written(scratch / f"{secrets.token_hex(8)}.yml", {**deployment.data, "models": sent})
    return {f"{place}{name}": path for name, path in {**files, DEPLOYMENT: written}.items()}


def _sent_model(deployment: Deployment, model: str, fetcher: fetch.Fetcher, files: dict[str, Path]) -> dict[str, Any]:
    """A model's part of the deployment file as the host reads it; its files are added to `files`."""
    settings = deployment.models[model]
    if deployment.custom_operators or settings.custom_operators:
        raise deployment.error(
            ("models", model), "custom_operators are code, which is not sent to hosts; run it without --cluster"
        )
    data = {**deployment.data["models"][model]}
    for key, name, path in _model_files(deployment, model, fetcher):
        data[key] = f"files/{model}/{key}/{name}"
        parts = _with_companions(path, name, settings.platform == "onnx")
        files |= {f"files/{model}/{key}/{part}": file for part, file in parts}
    _send_validation_inputs(deployment, model, data, files)
    return data


def _model_files(deployment: Deployment, model: str, fetcher: fetch.Fetcher) -> Iterator[tuple[str, str, Path]]:
    """Key, name and local file of what the model consists of; the zoo's models are made where they are needed."""
    settings = deployment.models[model]
    if not settings.model_file_path.startswith("zoo://"):
        yield "model_file_path", _file_name(settings.model_file_path), fetcher.model_file(model)
    weights = fetcher.weight_file(model)
    if settings.weight_file_path and weights and not settings.weight_file_path.startswith("zoo://"):
        yield "weight_file_path", _file_name(settings.weight_file_path), weights
    if settings.quantize_range_file and (ranges := fetcher.range_file(model)):
        yield "quantize_range_file", _file_name(settings.quantize_range_file), ranges


def _file_name(location: str) -> str:
    """The last part of a location, without what a URL asks for."""
    return location.partition("?")[0].rstrip("/").rpartition("/")[2] or "model"


def _with_companions(path: Path, name: str, is_onnx: bool) -> Iterator[tuple[str, Path]]:
    """A model's file under its name, or all of its folder below that; weights that an ONNX file names too."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield f"{name}/{file.relative_to(path)}", file
        return
    yield name, path
    if is_onnx:
        for beside in _external_files(path):
            yield beside, path.parent / beside


def _external_files(path: Path) -> set[str]:
    """Names of the files beside an ONNX file that hold weights of it."""
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:  # damaged: the host says how
        return set()
    tensors = [tensor for tensor in tensors_of(model) if uses_external_data(tensor)]
    names = {ExternalDataInfo(tensor).location for tensor in tensors}
    return {name for name in names if (path.parent / name).is_file() and ".." not in Path(name).parts}


def _send_validation_inputs(deployment: Deployment, model: str, data: dict[str, Any], files: dict[str, Path]) -> None:
    """Has the arrays sent that the model is tested on."""
    locations = deployment.models[model].subgraph.validation_inputs_data
    if not locations:
        return
    names = []
    for index, location in enumerate(locations):
        if "://" in location:
            raise deployment.error(
                ("models", model), f"validation_inputs_data: {location} cannot be sent to hosts; name a file"
            )
        names.append(f"files/{model}/validation_inputs/{index}.npy")
        files[names[-1]] = sent_file(deployment.path.parent / location)
    subgraphs = data["subgraphs"]
    data["subgraphs"] = [{**subgraphs[0], "validation_inputs_data": names}]


def sent_file(path: Path) -> Path:
    """The file itself; raises ConfigError where it is none."""
    if not path.is_file():
        raise ConfigError(f"{path} is not a file")
    return path


def artifacts_of(library: str) -> dict[str, Path]:
    """What tuning left below build/ for a library."""
    folder = Workspace(library).folder
    found = (path for part in ARTIFACTS for path in sorted((folder / part).rglob("*")))
    return {str(path): path for path in found if path.is_file() and not path.name.startswith(".")}


def _written(path: Path, data: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def job_scratch() -> tempfile.TemporaryDirectory[str]:
    """Where files lie that are made for jobs."""
    return tempfile.TemporaryDirectory(prefix="farm-cluster-")


def sent_arguments(values: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    """Files and folders of a command line: path in the job's folder -> file."""
    files: dict[str, Path] = {}
    for name, path in values:
        if path.is_dir():
            files |= {f"{name}/{file.relative_to(path)}": file for file in sorted(path.rglob("*")) if file.is_file()}
        else:
            files[name] = sent_file(path)
    return files
