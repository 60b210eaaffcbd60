"""Options and help of `farm init`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult


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
def command(**given: Any) -> CommandResult:
    """Write the deployment file of a model file, to keep and to change: `farm run FILE` runs it as it is.

    MODEL is a model of ONNX (.onnx), TFLite (.tflite), Keras (.keras, .h5), TensorFlow (frozen .pb, the folder of a
    SavedModel), PyTorch (.pt2) or Caffe (.prototxt). Names, shapes and types are read from it.
    """
    from farm.cli import init

    return init.init(**given)
