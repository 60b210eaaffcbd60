"""Numbers within limits: what is expected is said in words, where click shows `1<=x<=1024`."""

import math
from typing import Any

import click


def _expected(kind: click.IntRange | click.FloatRange, noun: str) -> str:
    low, high = kind.min, kind.max
    if low is not None and high is not None:
        limits = f"above {low:.10g} and up to {high:.10g}" if kind.min_open else f"from {low:.10g} to {high:.10g}"
    else:
        limits = f"of at least {low:.10g}" if low is not None else ""
    return f"{noun} {limits} is expected"


class WholeNumber(click.IntRange):
    """A whole number within limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{_expected(self, 'a whole number')}, not {value!r}", param, ctx)


class Number(click.FloatRange):
    """A number within limits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):  # click finds it within any limits
            self.fail(f"{_expected(self, 'a number')}, not {value!r}", param, ctx)
        return number
