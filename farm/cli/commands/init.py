"""`farm init`."""

from pathlib import Path

import click

from farm import safe_text
from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult, Document
from farm.config.given_model import GivenModel
from runtime.errors import ConfigError


@click.command(name="init")
@click.argument("model_file", metavar="MODEL", type=options.FILE)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=paths.NEW_FILE,
    help="File to write.  [default: MODEL's name with .yml, here]",
)
@options.model_file_options
@options.json_option
def command(model: GivenModel, output: Path | None, as_json: bool) -> CommandResult:
    """Write the deployment file of a model file, to keep and to change: `farm run FILE` runs it as it is.

    MODEL is a model of ONNX (.onnx), TFLite (.tflite), Keras (.keras, .h5), TensorFlow (frozen .pb, the folder of a
    SavedModel), PyTorch (.pt2) or Caffe (.prototxt). Names, shapes and types are read from it.
    """
    from farm import atomic_file
    from farm.model import deployments
    from farm.model.model_file import deployment_text, library_name

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
