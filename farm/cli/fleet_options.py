"""Options of commands that work on many units: how jobs are spread, and what happens when a unit is busy or lost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from farm.jobs.fleet.dispatch import FLEET, FleetOptions

Function = TypeVar("Function", bound=Callable[..., Any])

opencl_option = click.option(
    "--opencl",
    metavar="FILE|pypi|system",
    help="OpenCL library, or where to take it from.  [default: FARM_OPENCL, else the best one found]",
)
OPTIONS = (
    opencl_option,
    click.option(
        "--wait",
        "wait_s",
        metavar="SECONDS",
        type=click.FloatRange(0),
        default=FLEET.wait_s,
        show_default=True,
        help="Wait so long for a unit that somebody else holds.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(0, 100),
        default=FLEET.retries,
        show_default=True,
        help="Do a job again so often when its unit was lost.",
    ),
    click.option("--fail-fast", is_flag=True, help="After the first failure begin nothing new."),
)


spread_option = click.option(
    "--spread", is_flag=True, help="Each model once a SoC, on whichever of its units is free, instead of on each."
)


def fleet_options(purpose: str, spreads: bool = False) -> Callable[[Function], Function]:
    """The function gets one FleetOptions as `fleet`; `purpose` is what others see who want the same units.

    `spreads`: the command's jobs may be done by any unit of a SoC.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def called(
            opencl: str | None, wait_s: float, retries: int, fail_fast: bool, spread: bool = False, **others: Any
        ) -> Any:
            fleet = FleetOptions(purpose, opencl, wait_s, retries, fail_fast=fail_fast, spread=spread)
            return function(fleet=fleet, **others)

        decorated: Any = called
        for option in reversed((*OPTIONS, spread_option) if spreads else OPTIONS):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate
