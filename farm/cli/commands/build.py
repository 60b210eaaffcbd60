"""Options and help of `farm build`."""

from typing import Any

import click

from farm.cli.commands import options, paths
from farm.cli.envelope import CommandResult
from runtime.native.abi import ABIS
from runtime.native.features import ENGINES


@click.command(name="build")
@options.model_arguments("[MODEL.yml ...]")
@click.option(
    "--abi",
    "abis",
    multiple=True,
    type=click.Choice(list(ABIS)),
    help="What to compile for.  [default: target_abis of MODEL.yml; host without one]",
)
@click.option("--all", "every", is_flag=True, help="Every ABI that a compiler is there for.")
@click.option("--shared", is_flag=True, help="Link libfarmrt.so too, which exports the functions of farmrt.h alone.")
@click.option(
    "--without", multiple=True, type=click.Choice(ENGINES), help="Leave an engine out; plans that need it are refused."
)
@click.option(
    "--only-operators", is_flag=True, help="Leave out the engines and CPU operators that no model of MODEL.yml uses."
)
@click.option(
    "--output", metavar="DIR", type=paths.NEW_FOLDER, help="Where the ABIs' folders are made.  [default: build/farmrt]"
)
@options.skip_missing_option
@options.model_file_options
@options.json_option
def command(models: Any, as_json: bool, **given: Any) -> CommandResult:
    """Compile farmrt, the runtime that executes plans on a unit.

    Jobs do so themselves when a unit needs it. Give --abi several times for several. For Android the NDK that
    ANDROID_NDK_HOME names is used; without it ziglang compiles for arm64-v8a, and armeabi-v7a is left out by --all.

    The program, libfarmrt.a and farmrt.h lie in build/farmrt/ABI, those of a part of farmrt in a folder of their own
    beside it: build/farmrt/ABI-without-opencl.
    """
    from farm.cli import build

    return build.build(models, build.BuildRequest(**given), as_json)
