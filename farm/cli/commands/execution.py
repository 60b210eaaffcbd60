"""Options that say how farmrt executes plans: threads, CPUs, hints to the GPU's driver."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from farm.cli.ranges import WholeNumber
from farm.config.keywords import ExecutionKeywords, names_of

Function = TypeVar("Function", bound=Callable[..., Any])

HINTS = ("default", "low", "normal", "high")  # by MACE's numbers
MAX_THREADS = 1024
_FROM_FILE = "[default: the deployment file's"


class Hint(click.Choice[str]):
    """A hint's word, or its number in MACE."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word."""
        numbers = {str(number): word for number, word in enumerate(HINTS)}
        return super().convert(numbers.get(value, value), param, ctx)


def _affinity(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The value, where it is a policy's word or a list of CPUs."""
    from farm.config.execution import check_affinity

    try:
        return None if value is None else check_affinity(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


cpu_options = (
    click.option(
        *("--num_threads", "--num-threads", "--omp_num_threads", "num_threads"),
        metavar="N",
        type=WholeNumber(1, MAX_THREADS),
        help=f"Threads that share CPU operators.  {_FROM_FILE}, else one for each CPU that the policy leaves]",
    ),
    click.option(
        *("--cpu_affinity_policy", "--cpu-affinity-policy", "cpu_affinity_policy"),
        metavar="none|big_only|little_only|CPUS",
        callback=_affinity,
        help="CPUs that those threads stay on: of the highest or lowest frequency, or a list (4-7, 0,2, 4-4), which is "
        f"refused where it cannot be had.  {_FROM_FILE}, else none]",
    ),
)
gpu_options = (
    click.option(
        *("--gpu_perf_hint", "--gpu-perf-hint", "gpu_perf_hint"),
        type=Hint(HINTS),
        help="How high the GPU shall clock, where its driver takes that (cl_qcom_perf_hint, cl_khr_throttle_hints).  "
        f"{_FROM_FILE}, else default]",
    ),
    click.option(
        *("--gpu_priority_hint", "--gpu-priority-hint", "gpu_priority_hint"),
        type=Hint(HINTS),
        help="Whose work goes first on the GPU, where its driver takes that (cl_qcom_priority_hint, "
        f"cl_khr_priority_hints).  {_FROM_FILE}, else default]",
    ),
)


def execution_options(function: Function) -> Function:
    """How plans are executed; the function gets one Execution as `execution`."""
    return _with(function, *cpu_options, *gpu_options)


def hint_options(function: Function) -> Function:
    """Options that hint to the GPU's driver, for a command that runs kernels alone and no CPU operators."""
    return _with(function, *gpu_options)


def _with(function: Function, *options: Callable[[Any], Any]) -> Function:
    @functools.wraps(function)
    def called(**given: Any) -> Any:
        from farm.config.execution import Execution

        execution = Execution(**{name: given.pop(name, None) for name in names_of(ExecutionKeywords)})
        return function(execution=execution, **given)

    decorated: Any = called
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]
