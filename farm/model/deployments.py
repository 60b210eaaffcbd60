"""Opens what a user names as a model, a deployment file or a model file, as a deployment: the only place that does."""

from collections.abc import Iterable
from pathlib import Path

from farm.config import deployment
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.config.yaml_source import WrittenSource
from farm.model.model_file import deployment_text
from runtime.errors import ConfigError, ModelError
from runtime.frameworks import file_kinds

YAML = (".yml", ".yaml")


def load(given: GivenModel) -> Deployment:
    """The deployment of a model; the same type for both kinds of file.

    Raises:
        ConfigError: the file is neither, a deployment file is wrong, or a model file leaves open what was not given.
        ModelError: the model is damaged.
    """
    found = _read(given)
    return found.on_runtimes(given.runtimes) if given.runtimes else found


def _read(given: GivenModel) -> Deployment:
    platform = platform_of(given.path)
    if platform:
        source = WrittenSource(given.path, deployment_text(given, platform, given.path.parent))
        return deployment.of_source(source, given.trusted)
    for option, value in (("--shape", given.shapes), ("--weights", given.weights)):
        if value:
            raise ConfigError(f"{given.path}: {option} is for model files; this deployment file says it in its keys")
    return deployment.load(given.path, given.trusted)


def load_all(models: Iterable[GivenModel]) -> list[Deployment]:
    """The deployments of models whose results are kept side by side; raises ConfigError also where two have one name.

    A model file gives its own name alone: `v1/model.onnx` and `v2/model.onnx` have one.
    """
    sources = list(map(load, models))
    known: dict[tuple[str, str], Deployment] = {}
    for source in sources:
        for name in source.models:
            first = known.setdefault((source.library_name, name), source)
            if first is not source:
                raise same_name(source, first, name)
    return sources


def same_name(source: Deployment, first: Deployment, model: str) -> ConfigError:
    """Why two deployments with a model of one name cannot keep their results side by side."""
    if source.path == first.path:
        return ConfigError(f"{source.path}: named twice; leave one out")
    return ConfigError(
        f"{source.path}: its model {model} has the name of that in {first.path}, library {source.library_name}, and "
        "their results would be mixed; give one another library_name (of a model file: in what "
        "`farm init FILE -o OTHER.yml` writes)"
    )


def of_path(path: Path, trust_models: bool = False) -> Deployment:
    """The same of a file that is named without anything else."""
    return load(GivenModel(path, trusted=trust_models))


def platform_of(path: Path) -> str:
    """The platform of a model file; empty for a deployment file, or for what should be one by its name.

    Raises ConfigError where the file is neither.
    """
    try:
        return file_kinds.platform_of(path)
    except ModelError as error:
        if path.suffix in YAML and path.is_file():
            return ""
        raise ConfigError(str(error)) from None
