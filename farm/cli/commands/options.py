"""Options that several commands share."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from farm.cli import envelope, verbosity
from farm.cli.commands import paths
from farm.cli.commands.execution import execution_options
from farm.cli.ranges import Number, WholeNumber
from farm.config import named_file, samples
from farm.config.duration import parse_duration
from farm.config.keywords import ArtifactKeywords, names_of
from runtime.errors import ConfigError, ModelError

Function = TypeVar("Function", bound=Callable[..., Any])

WAIT_S = 60.0  # these two are the defaults of FleetOptions
RETRIES = 1
PRIORITIES = ("interactive", "nightly")

FILE = click.Path(path_type=Path)
CONFIG = "--config"
NO_MODELS = (".yml", ".yaml", ".plan")
TO_START = "; `farm run zoo://squeezenet_v11` needs none, `farm zoo deployment NAME` writes one to start from"


class ModelFile(click.Path):
    """A deployment file: a path, or `zoo://NAME` for a sample that comes with farm."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The file that is meant; that none is there, or nothing in it, is said before anything heavy is imported."""
        path = samples.deployment_file(str(value))
        if not os.path.lexists(path):
            advice = "" if path.suffix == ".plan" else TO_START
            raise ConfigError(f"{path}: {named_file.missing(path, advice)}")
        if path.is_file() and not path.stat().st_size and path.suffix not in NO_MODELS:
            _refuse_empty(path)
        return path


def _refuse_empty(path: Path) -> None:
    from runtime.frameworks import file_kinds

    try:
        file_kinds.platform_of(path)
    except ModelError as error:
        raise ConfigError(str(error)) from None


MODEL_FILE = ModelFile()


def duration(_context: click.Context, _option: click.Parameter, value: str) -> float:
    """Seconds of `2h`, `45m` or the like."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def model_argument(function: Function) -> Function:
    """One deployment file, `model_file`; MACE's users name it by `--config`."""
    return _with_options(  # type: ignore[no-any-return]
        function,
        click.argument("model_file", metavar="MODEL.yml", type=MODEL_FILE, required=False, callback=_one_file),
        click.argument("more_files", metavar="", nargs=-1, expose_value=False, callback=_no_more_files),
        _config_option,
    )


def model_arguments(metavar: str) -> Callable[[Function], Function]:
    """Any number of deployment files, `model_files`; MACE's users name one by `--config`."""
    files = click.argument("model_files", metavar=metavar, type=MODEL_FILE, nargs=-1, callback=_all_files)
    return lambda function: _with_options(function, files, _config_option)


def _keep_config(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    context.meta[CONFIG] = [path] if path else []


def _all_files(context: click.Context, _argument: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    return (*context.meta[CONFIG], *paths)


def _one_file(context: click.Context, argument: click.Parameter, path: Path | None) -> Path:
    named: list[Path] = [*context.meta[CONFIG], *([path] if path else [])]
    if not named:
        raise click.MissingParameter(ctx=context, param=argument)
    if len(named) > 1:
        _no_more_files(context, argument, tuple(map(str, named[1:])))
    return named[0]


def _no_more_files(context: click.Context, _argument: click.Parameter, words: tuple[str, ...]) -> None:
    """Several files are another command's, or several commands."""
    if words:
        raise click.UsageError(
            f"{context.info_name} takes one deployment file, not {' and '.join(words)} too: call it once for each, or "
            "write their models into one file",
            context,
        )


_config_option = click.option(
    *(CONFIG, "model_config"),
    type=MODEL_FILE,
    hidden=True,
    help="MACE's name for MODEL.yml.",
    expose_value=False,
    is_eager=True,
    callback=_keep_config,
)
json_option = click.option(envelope.OPTION, "as_json", is_flag=True, help="Print JSON.")
runtime_option = click.option(
    "--runtime",
    "runtimes",
    type=click.Choice(["cpu", "gpu"]),
    multiple=True,
    help="Only on this runtime.",
)
rounds_option = click.option(
    "--round", "rounds", type=WholeNumber(1, 100_000), default=10, show_default=True, help="Measured rounds."
)
warmup_option = click.option(
    "--warmup", type=WholeNumber(0, 10_000), default=1, show_default=True, help="Rounds before those."
)
trust_model_option = click.option(
    "--trust-model",
    "trust_models",
    is_flag=True,
    help="Accept models that carry code (Keras Lambda layers, pickles, TorchScript).",
)


def _parsed_shapes(_context: click.Context, _option: click.Parameter, words: tuple[str, ...]) -> tuple[Any, ...]:
    """Input and shape of each word."""
    from farm.config.given_model import parsed_shape

    try:
        return tuple(map(parsed_shape, words))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


shape_option = click.option(
    "--shape",
    "shapes",
    metavar="INPUT=SIZES",
    multiple=True,
    callback=_parsed_shapes,
    help="Shape of an input that a model file leaves open, as in image=1,3,224,224; repeat for further inputs, and for "
    "further shapes of one: each is a row.",
)
weights_option = click.option(
    "--weights",
    metavar="FILE",
    type=FILE,
    help="Weights of a Caffe network.  [default: the .caffemodel beside its .prototxt, of the same name]",
)
memory_option = click.option(
    "--memory", type=click.Choice(["buffer", "image"]), help="OpenCL memory.  [default: what suits the GPU]"
)
store_option = click.option(
    "--store",
    metavar="URL",
    help="Where runs and rows are kept: a path, or postgresql://USER@HOST/DATABASE.  [default: reports/farm.db]",
)
cluster_option = click.option(
    "--cluster",
    metavar="URL",
    envvar="FARM_CLUSTER",
    help="The units of all hosts of this scheduler, tls://HOST:PORT.  [default: FARM_CLUSTER, else this host's alone]",
)
certificates_option = click.option(
    "--certificates",
    metavar="FOLDER",
    envvar="FARM_CERTIFICATES",
    type=FILE,
    help="This host's certificate for the cluster.  [default: FARM_CERTIFICATES, else ~/.farm/cluster]",
)
opencl_option = click.option(
    "--opencl",
    metavar="FILE|intel|pypi|system",
    help="OpenCL library, or where to take it from.  [default: FARM_OPENCL, else the best one found]",
)
skip_missing_option = click.option(
    "--skip-missing", is_flag=True, help="What cannot be made here is left out and told, and is no failure."
)
spread_option = click.option(
    "--spread", is_flag=True, help="Each model once a SoC, on whichever of its units is free, instead of on each."
)


def unit_options(function: Function) -> Function:
    """Which units work; the function gets one Selection as `choice`."""

    @functools.wraps(function)
    def called(
        soc: tuple[str, ...],
        device: tuple[str, ...],
        tag: tuple[str, ...],
        every: bool,
        one_per_soc: bool,
        **others: Any,
    ) -> Any:
        from farm.units.selection import Selection

        return function(choice=Selection(soc, device, tag, every, one_per_soc), **others)

    return _with_options(  # type: ignore[no-any-return]
        called,
        click.option(
            "--soc", metavar="SOC", multiple=True, help="Only units with this SoC; repeat for any of several."
        ),
        click.option("--device", metavar="UNIT", multiple=True, help="Only this unit, by name or serial; repeatable."),
        click.option(
            "--tag", metavar="TAG", multiple=True, help="Only units with this tag of devices.yml; repeatable."
        ),
        click.option("--all", "every", is_flag=True, help="All units, whatever the deployment file is for."),
        click.option("--one-per-soc", is_flag=True, help="Of units with the same SoC only one, a ready one first."),
        click.option(
            *("--device_yml", "--device-yml"),
            type=paths.EXISTING_FILE,
            hidden=True,
            help="Read the units of this file, in place of devices.yml; MACE's name.",
            expose_value=False,
            is_eager=True,
            callback=_read_devices_of,
        ),
    )


def _read_devices_of(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    """MACE's name for the file that lists the units, instead of devices.yml in this folder."""
    if path:
        from farm.config import inventory

        context.with_resource(inventory.read_from(path))


def model_file_options(function: Function) -> Function:
    """What is said of a model file beside its name.

    The function gets a GivenModel as `model` for its argument `model_file` (None where that is left out), or several as
    `models` for `model_files`.
    """

    @functools.wraps(function)
    def called(
        shapes: Any, weights: Path | None, trust_models: bool, runtimes: tuple[Any, ...] = (), **others: Any
    ) -> Any:
        from farm.config.given_model import GivenModel

        def given(path: Path) -> GivenModel:
            return GivenModel(path, shapes, weights, trust_models, runtimes)

        if "model_file" in others:
            path = others.pop("model_file")
            return function(model=given(path) if path else None, **others)
        paths = others.pop("model_files")
        if len(paths) != 1 and (shapes or weights):
            raise click.UsageError("--shape and --weights are of one model file: name it alone")
        return function(models=tuple(map(given, paths)), **others)

    return _with_options(called, shape_option, weights_option, trust_model_option)  # type: ignore[no-any-return]


def engine_option(purpose: str) -> Callable[[Function], Function]:
    """`--engine`: what runs the models; the function gets their names as `engines`."""
    return click.option("--engine", "engines", metavar="ENGINE", multiple=True, help=purpose)


def share_option(purpose: str) -> Callable[[Function], Function]:
    """`--share`: what a command does with the place that hosts share."""
    text = f"{purpose}  [default: FARM_SHARE, else none]"
    return click.option("--share", metavar="PLACE", envvar="FARM_SHARE", help=text)


def cluster_options_of(priority: str, stays_for: str = "") -> Callable[[Function], Function]:
    """Whether the units of other hosts are meant; the function gets a ClusterChoice, or None, as `cluster`.

    `priority` is the command's where the user gives none; `stays_for`: what here its job cannot go on without.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(
            cluster: str | None, certificates: Path | None, priority: str, detach: bool = False, **others: Any
        ) -> Any:
            from farm.cluster.address import ClusterChoice

            if detach and stays_for:
                raise click.UsageError(
                    f"--detach: this command needs {stays_for}; `systemd-run --user farm ...` leaves it to this machine"
                )
            if detach and not cluster:
                raise click.UsageError("--detach: hosts of a cluster go on by themselves: name it with --cluster")
            choice = ClusterChoice(cluster, certificates, priority, detach) if cluster else None
            return function(cluster=choice, **others)

        detach_option = _detach_option(hidden=bool(stays_for))
        return _with_options(called, cluster_option, certificates_option, _priority_option(priority), detach_option)  # type: ignore[no-any-return]

    return decorate


def _detach_option(hidden: bool) -> Callable[[Any], Any]:
    text = "Leave the job to the cluster, and end: `farm jobs fetch` brings what came of it."
    return click.option("--detach", is_flag=True, hidden=hidden, help=text)


cluster_options = cluster_options_of(PRIORITIES[0])


def load_options(function: Function) -> Function:
    """How a model is loaded and executed; the function gets one LoadOptions as `load`."""

    @functools.wraps(function)
    def called(execution: Any, **given: Any) -> Any:
        from farm.jobs.loading import LoadOptions, with_existing_files

        artifacts = {name: given.pop(name) for name in names_of(ArtifactKeywords)}
        return function(load=with_existing_files(LoadOptions(**artifacts, execution=execution)), **given)

    default = "[default: the file that tuning left in build/, if any]"
    return _with_options(  # type: ignore[no-any-return]
        execution_options(called),
        click.option("--tuned", metavar="FILE|none", type=FILE, help=f"Tuned parameters.  {default}"),
        click.option("--kernels", metavar="FILE|none", type=FILE, help=f"Compiled kernels.  {default}"),
        click.option("--selection", metavar="FILE|none", type=FILE, help=f"Where and how operators run.  {default}"),
        memory_option,
    )


def fleet_options(purpose: str, spreads: bool = False) -> Callable[[Function], Function]:
    """How jobs are spread over units, and what happens when one is busy or lost.

    The function gets one FleetOptions as `fleet`; `purpose` is what others see who want the same units.
    `spreads`: the command's jobs may be done by any unit of a SoC.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(
            opencl: str | None,
            wait_s: float,
            retries: int,
            fail_fast: bool,
            round_limit_s: float | None,
            spread: bool = False,
            **others: Any,
        ) -> Any:
            from farm.jobs.fleet.dispatch import FleetOptions

            fleet = FleetOptions(
                purpose, opencl, wait_s, retries, fail_fast=fail_fast, spread=spread, round_limit_s=round_limit_s
            )
            return function(fleet=fleet, **others)

        more = [*([spread_option] if spreads else []), verbosity.option, verbosity.vlog_option]
        return _with_options(called, *_FLEET, *more)  # type: ignore[no-any-return]

    return decorate


_FLEET = (
    opencl_option,
    click.option(
        "--wait",
        "wait_s",
        metavar="SECONDS",
        type=Number(0),
        default=WAIT_S,
        show_default=True,
        help="Wait so long for a unit that somebody else holds.",
    ),
    click.option(
        "--retries",
        type=WholeNumber(0, 100),
        default=RETRIES,
        show_default=True,
        help="Do a job again so often when its unit was lost, or farmrt killed there.",
    ),
    click.option("--fail-fast", is_flag=True, help="After the first failure begin nothing new."),
    click.option(
        "--round-limit",
        "round_limit_s",
        metavar="SECONDS",
        type=Number(0, 1_000_000, min_open=True),
        help="A round that goes so long without progress hangs.  [default: round_limit of MODEL.yml, else 120 or more]",
    ),
)


def _priority_option(default: str) -> Callable[[Function], Function]:
    return click.option(
        "--priority",
        type=click.Choice(PRIORITIES),
        default=default,
        show_default=True,
        help="Who goes first in the cluster's queue: interactive before nightly.",
    )


def _with_options(function: Any, *options: Callable[[Any], Any]) -> Any:
    """The function with these options, listed in this order."""
    for option in reversed(options):
        function = option(function)
    return function
