"""Figures for people, with as many digits as mean something and their unit; and for charts, with six."""

from __future__ import annotations

import datetime
import functools
import math
import re

import numpy as np

from farm.decision.judgement import Judgement
from farm.rows.series import Metric, Nature
from farm.safe_text import one_line
from farm.tables.table import size
from runtime.statistics.medians import Array

NONE = "–"
MINUS = "\N{MINUS SIGN}"
_S_FROM_MS = 10_000.0
# Of a percentage, and of both ends of an interval: no hyphen of a name, a date or an error code.
_HYPHEN = re.compile(r"(?<![^\s(])-(?=\d[\d.e+-]* (?:%|to ))|(?<= to )-(?=\d)")


def figure(metric: Metric, value: float | None) -> str:
    """A metric's value with its unit; a dash where there is none."""
    if value is None:
        return NONE
    if not math.isfinite(value):
        return "not a number"
    if metric.info.unit == "ms":
        return milliseconds(value)
    if metric.info.unit == "bytes":
        return f"{MINUS}{size(-int(value))}" if value < 0 else size(int(value))
    if metric not in _FORMS:  # a program's figure
        return f"{digits(value)} {metric.info.unit}".rstrip()
    return _signed(_FORMS[metric].format(value))


_FORMS = {
    Metric.COSINE: "{:.6f}",
    Metric.SQNR: "{:.1f} dB",
    Metric.MAX_ERROR: "{:.3g}",
    Metric.NAN: "{:.0f}",
    Metric.TUNED_RATIO: "{:.3f}",
}


def milliseconds(value: float | None) -> str:
    """Four digits: `12.35 ms`, `0.1235 ms`, `12.35 s`."""
    if value is None:
        return NONE
    if not math.isfinite(value):
        return "not a number"
    return f"{digits(value / 1000)} s" if abs(value) >= _S_FROM_MS else f"{digits(value)} ms"


def signed_milliseconds(value: float) -> str:
    """A difference: `+0.51 ms`."""
    return f"{'+' if value > 0 else ''}{digits(value, 3)} ms"


def digits(value: float, count: int = 4) -> str:
    """So many significant digits, without an exponent for what people read as it is."""
    if value == 0:
        return "0"
    before = math.floor(math.log10(abs(value))) + 1
    return _signed(f"{value:.{max(count - before, 0)}f}" if before > -3 else f"{value:.{count - 1}g}")


def percent(ratio: float | None) -> str:
    """A ratio as `+9.8 %`."""
    if ratio is None or not math.isfinite(ratio):
        return NONE
    return _signed(f"{100 * (ratio - 1):+.1f} %")


def interval(low: float | None, high: float | None) -> str:
    """A confidence interval of a ratio as `+7.9 to +11.6 %`; empty where there is none."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return _signed(f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %")


def change(metric: Metric, judgement: Judgement) -> str:
    """Tonight against the baseline: by ratio, or by difference where a ratio means nothing."""
    if judgement.ratio is not None:
        return percent(judgement.ratio)
    difference = judgement.difference
    if difference is None:
        return NONE
    if metric.info.nature == Nature.TIMED and judgement.baseline:
        return percent(1 + difference / judgement.baseline)
    text = f"{difference:.2g}" if metric == Metric.COSINE else figure(metric, difference)
    return "0" if difference == 0 else f"+{text}" if difference > 0 else _signed(text)


def with_minus(text: str) -> str:
    """A sentence with the minus signs of its percentages and intervals: `-0.7 % (-0.9 to -0.5 %)`."""
    return _HYPHEN.sub(MINUS, text) if "-" in text else text


def _signed(text: str) -> str:
    """With a minus sign that is as wide as a plus; exponents keep theirs."""
    return (
        text.replace(" to -", f" to {MINUS}").replace("-", MINUS, 1)
        if text.startswith("-")
        else text.replace(" to -", f" to {MINUS}")
    )


@functools.lru_cache(maxsize=4096)
def moment(time: str) -> str:
    """An ISO 8601 time as `2026-11-21 02:00 UTC`; what is no time stays as it is."""
    moment = utc(time)
    return moment.strftime("%Y-%m-%d %H:%M UTC") if moment else time or NONE


def utc(time: str) -> datetime.datetime | None:
    """An ISO 8601 time in UTC; None where it is none."""
    try:
        moment = datetime.datetime.fromisoformat(time)
        return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment.astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        return None


@functools.lru_cache(maxsize=4096)
def commit(text: str) -> str:
    """Twelve characters tell commits apart."""
    return one_line(text[:12])


def duration(started: str, ended: str) -> str:
    """Between two times, as `3 h 12 min`; a dash where one is missing."""
    first, last = utc(started), utc(ended)
    if first is None or last is None:
        return NONE
    minutes = round((last - first).total_seconds() / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "< 1 min"


POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])  # the powers of ten that floats have exactly
NEAR_HALF = 1e-6  # of the last digit: there only decimal arithmetic knows which way to round


def six_digits(value: float | None) -> float | None:
    """A figure with six digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None


def all_six_digits(values: Array) -> list[float | None]:
    """The same of many figures, in a tenth of the time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.where(values == 0, 0.0, 5 - np.floor(np.log10(np.abs(values))))
        is_exact = np.abs(places) < len(POWERS)
        shift = np.where(is_exact, places, 0).astype(int)
        up, down = POWERS[np.maximum(shift, 0)], POWERS[np.maximum(-shift, 0)]  # one of the two is 1
        scaled = values * up / down
        whole = np.rint(scaled)
        is_exact &= np.abs(np.abs(scaled - whole) - 0.5) > NEAR_HALF
        figures: list[float | None] = (whole / up * down).tolist()
    for place in np.flatnonzero(~is_exact).tolist():
        figures[place] = six_digits(float(values[place]))
    return figures
