"""Draws step curves as an SVG file: panels side by side, a logarithmic axis of seconds below, ratios at the left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]
"""(seconds, value) of each step, in order: the value holds until the next step."""

COLOURS = ("#1f6fb4", "#d9730d", "#3a923a", "#8d59a8")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 300, 220, 44, 44, 12, 40  # of a panel, and of the margins in it


@dataclasses.dataclass(frozen=True)
class Panel:
    """A title, and named curves."""

    title: str
    curves: Sequence[tuple[str, Curve]]


@dataclasses.dataclass(frozen=True)
class Axes:
    """The ends of both axes, the same for all panels; values above the highest are drawn at it."""

    first_s: float
    last_s: float
    highest: float

    def x(self, seconds: float) -> float:
        """Pixels from a panel's left side."""
        share = math.log(max(seconds, self.first_s) / self.first_s) / math.log(self.last_s / self.first_s)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top; the bottom is 1."""
        share = (min(value, self.highest) - 1.0) / (self.highest - 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def svg(panels: Sequence[Panel], axes: Axes, below: str) -> str:
    """The whole drawing; `below` names the axis of seconds."""
    parts = [line for index, panel in enumerate(panels) for line in _panel(panel, axes, index * WIDTH, below)]
    names = list(dict.fromkeys(name for panel in panels for name, _ in panel.curves))
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT + 24}"'
    box = f'viewBox="0 0 {WIDTH * len(panels)} {HEIGHT + 24}"'
    style = 'font-family="sans-serif" font-size="11" fill="#333"'
    paper = '<rect width="100%" height="100%" fill="white"/>'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} {style}>', paper, *parts, *_legend(names), "</svg>"]
    return "\n".join(lines) + "\n"


def _panel(panel: Panel, axes: Axes, left: float, below: str) -> Iterator[str]:
    yield f'<g transform="translate({left},0)">'
    yield _text(LEFT, 20, panel.title, "start", ' font-weight="bold"')
    yield from _grid(axes)
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, below, "middle")
    for index, (_, curve) in enumerate(panel.curves):
        points = " ".join(f"{axes.x(seconds):.1f},{axes.y(value):.1f}" for seconds, value in _steps(curve))
        colour = COLOURS[index % len(COLOURS)]
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    yield "</g>"


def _grid(axes: Axes) -> Iterator[str]:
    for exponent in range(math.ceil(math.log10(axes.first_s)), math.floor(math.log10(axes.last_s)) + 1):
        x = axes.x(10.0**exponent)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>'
        yield _text(x, HEIGHT - BOTTOM + 14, f"{10.0**exponent:g}", "middle")
    for number in range(5):
        value = 1.0 + number * (axes.highest - 1.0) / 4
        y = axes.y(value)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(LEFT - 6, y + 4, f"{value:.2f}", "end")


def _steps(curve: Curve) -> Iterator[tuple[float, float]]:
    """The corners of a curve: each value holds until the next."""
    before: float | None = None
    for seconds, value in curve:
        if before is not None:
            yield seconds, before
        yield seconds, value
        before = value


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = float(LEFT)
    for index, name in enumerate(names):
        y = HEIGHT + 12
        yield f'<line x1="{x}" x2="{x + 18}" y1="{y - 4}" y2="{y - 4}" stroke="{COLOURS[index]}" stroke-width="2"/>'
        yield _text(x + 22, y, name, "start")
        x += 40 + 6.2 * len(name)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
