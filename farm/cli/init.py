"""`farm init`: the deployment file of a model file."""

from pathlib import Path

import click

from farm import atomic_file, safe_text
from farm.cli.envelope import CommandResult, Document
from farm.config.given_model import GivenModel
from farm.model import deployments
from farm.model.model_file import deployment_text, library_name
from runtime.errors import ConfigError


def init(model: GivenModel, output: Path | None, as_json: bool) -> CommandResult:
    """Writes the file; one that is there already is replaced only where it is named."""
    platform = deployments.platform_of(model.path)
    if not platform:
        raise ConfigError(f"{model.path}: no model file; a deployment file is run as it is: `farm run {model.path}`")
    path = output or Path(f"{library_name(model.path.absolute())}.yml")
    if output is None and path.exists():
        raise ConfigError(f"{path}: is there already; -o FILE writes another, or replaces it")
    text = deployment_text(model, platform, path.parent)
    atomic_file.write(path, text.encode())
    if as_json:
        return Document(members={"file": str(path), "content": text})
    click.echo(safe_text.one_line(f"{path}: next, `farm run {path}`"))
    return 0
