"""Measures what `farm convert` takes: a transformer whose weights lie beside it, and files that are no models.

    python benchmarks/conversion.py [--width 3.9]

A line for each: the largest memory over the model's size, and the seconds of CPU, of all processes that it starts.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import onnx

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from runtime import zoo

TREE = Path(__file__).parents[1]
FARM = "import sys; from farm.cli import main; sys.exit(main())"
NETWORK = "llama_small_prefill"
KIB = 1024


@click.command()
@click.option("--width", type=float, default=3.9, show_default=True, help="Of the transformer; 3.9: 1.40 GB.")
def main(width: float) -> None:
    """What a conversion takes."""
    with TemporaryDirectory(prefix="farm-conversion.") as name, contextlib.chdir(name):
        Path("empty.onnx").touch()
        Path("garbage.onnx").write_bytes(os.urandom(1 << 20))
        for file in ("empty.onnx", "garbage.onnx"):
            click.echo(f"{file}: {_taken([file])}")
        size = _transformer_bytes(Path("transformer.onnx"), width)
        for arguments in ([], [], ["--runtime", "cpu"]):  # the second finds the files that it would write
            took = _taken(["transformer.onnx", *arguments], size)
            click.echo(f"{' '.join([NETWORK, *arguments])} of {size / 1e9:.2f} GB: {took}")


def _transformer_bytes(path: Path, width: float) -> int:
    """Writes the model, its weights in a file beside it, in another process, whose memory would count as farm's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_write_transformer, (path, width))


def _write_transformer(path: Path, width: float) -> int:
    """Writes the model, its weights in a file beside it; returns their bytes."""
    beside = f"{path.name}.data"
    model = zoo.build(NETWORK, width=width)
    onnx.save_model(model, str(path), save_as_external_data=True, location=beside, size_threshold=1024)
    return path.stat().st_size + Path(beside).stat().st_size


def _taken(arguments: list[str], size_bytes: int | None = None) -> str:
    """Runs `farm convert`; what it took, in words."""
    environment = os.environ | {"PYTHONPATH": str(TREE)}
    process = subprocess.Popen([sys.executable, "-c", FARM, "convert", *arguments], env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    peak = usage.ru_maxrss * KIB
    memory = f"{peak / size_bytes:.2f} times its size" if size_bytes else f"{peak / 1e6:.0f} MB"
    cpu_s = usage.ru_utime + usage.ru_stime
    return f"exit status {os.waitstatus_to_exitcode(status)}, {memory}, {cpu_s:.1f} s of CPU"


if __name__ == "__main__":
    main()
