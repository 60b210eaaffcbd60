"""Figures have as many digits as mean something, and a unit; those of charts six, rounded as decimals are."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.decision.judgement import Judgement, Verdict
from farm.report.charts import _figures
from farm.report.figures import (
    all_six_digits,
    change,
    duration,
    figure,
    interval,
    milliseconds,
    moment,
    percent,
    six_digits,
    with_minus,
)
from farm.report.markdown import ReportSection, markdown, plain, write
from farm.report.names import Names, slug
from farm.rows.series import Metric, trimmed_mean
from farm.tables.table import Table
from tests.farm.report.nights import HOSTILE


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        (Metric.LATENCY, 12.3456, "12.35 ms"),
        (Metric.LATENCY, 0.123456, "0.1235 ms"),
        (Metric.LATENCY, 1234.56, "1235 ms"),
        (Metric.INIT, 15_100.0, "15.10 s"),
        (Metric.COSINE, 0.9999871, "0.999987"),
        (Metric.SQNR, 46.12, "46.1 dB"),
        (Metric.MAX_ERROR, 0.0001934, "0.000193"),
        (Metric.NAN, 3.0, "3"),
        (Metric.MEMORY, 34_821_120.0, "33.2 MiB"),
        (Metric.LATENCY, None, "–"),
        (Metric.LATENCY, math.nan, "not a number"),
        (Metric.MEMORY, math.inf, "not a number"),
    ],
)
def test_figures(metric: Metric, value: float | None, shown: str) -> None:
    assert figure(metric, value) == shown


def test_changes_are_ratios_or_differences() -> None:
    timed = Judgement(Verdict.REGRESSION, "", value=11.0, baseline=10.0, ratio=1.098, low=1.079, high=1.116)
    assert (change(Metric.LATENCY, timed), interval(timed.low, timed.high)) == ("+9.8 %", "+7.9 to +11.6 %")
    sqnr = Judgement(Verdict.REGRESSION, "", value=41.0, baseline=46.0)
    assert change(Metric.SQNR, sqnr) == "−5.0 dB"
    assert sqnr.relative_change == pytest.approx(-5 / 46)
    smaller = Judgement(Verdict.IMPROVEMENT, "", value=1.0 * 2**20, baseline=3.0 * 2**20)
    assert change(Metric.MEMORY, smaller) == "−2.0 MiB"
    assert change(Metric.NAN, Judgement(Verdict.UNCHANGED, "", value=0.0, baseline=0.0)) == "0"
    assert change(Metric.NAN, Judgement(Verdict.NEW, "")) == "–"


def test_what_is_no_number_is_no_change() -> None:
    broken = Judgement(Verdict.FAILED, "", value=math.nan, baseline=1.0, ratio=math.inf, low=math.nan, high=1.0)
    assert (change(Metric.LATENCY, broken), interval(broken.low, broken.high), broken.relative_change) == ("–", "", 0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-0.7 % (-0.9 to -0.5 %) against 20 nights", "−0.7 % (−0.9 to −0.5 %) against 20 nights"),
        ("+0.2 % (-0.9 to +0.5 %) against run 3; -1.5 to 6", "+0.2 % (−0.9 to +0.5 %) against run 3; −1.5 to 6"),
        ("run 2026-11-21 of arm64-v8a: clEnqueue (-5), exit status -9", ""),
    ],
)
def test_sentences_have_the_minus_signs_of_their_percentages(text: str, shown: str) -> None:
    assert with_minus(text) == (shown or text)


def test_percent_and_times() -> None:
    assert (percent(0.934), milliseconds(None)) == ("−6.6 %", "–")
    assert moment("2026-11-21T03:00:00+01:00") == "2026-11-21 02:00 UTC"
    assert moment("no time") == "no time"
    assert duration("2026-11-21T02:00:00+00:00", "2026-11-21T05:12:00+00:00") == "3 h 12 min"
    assert duration("2026-11-21T02:00:00+00:00", "") == "–"


drawn = random.Random(1)
LONG = [drawn.uniform(1, 10) * 10.0 ** drawn.randint(-12, 12) for _ in range(3000)]
HALVES = [round(drawn.uniform(0.1, 1), 6) * 10.0**exponent + 5 * 10.0 ** (exponent - 7) for exponent in range(-5, 9)]
EDGES = [0.0, -0.0, 1.0, 1e-30, 1e30, 5e-324, 1.7e308, 999999.5, 1e6, 1234565.0, 12.34565, 0.1234565, 9.9999995, -2.5]


@pytest.mark.parametrize("values", [LONG, HALVES * 50, EDGES, [round(value, 3) for value in LONG if value < 1e6]])
def test_many_figures_are_rounded_as_each_alone(values: list[float]) -> None:
    singly, together = list(map(six_digits, values)), all_six_digits(np.array(values))
    assert together == singly
    assert [math.copysign(1, value or 0.0) for value in together] == [
        math.copysign(1, value or 0.0) for value in singly
    ]


def test_what_is_no_number_has_no_figure() -> None:
    assert all_six_digits(np.array([math.nan, 1.23456789, math.inf, -math.inf])) == [None, 1.23457, None, None]
    assert six_digits(None) is six_digits(math.nan) is None and all_six_digits(np.empty(0)) == []


@pytest.mark.parametrize("odd", [(), (math.nan, 1.0), (math.inf,), (2.0, -math.inf, 3.0)])
def test_a_nights_figure_is_its_trimmed_mean_between_its_ends(odd: tuple[float, ...]) -> None:
    nights = [(3.0,), tuple(LONG[:2]), tuple(LONG[:3]), tuple(LONG[:11]), odd, ()]
    value, low, high = (each.tolist() for each in _figures(nights))
    known = nights[:4]
    assert value[:4] == pytest.approx(list(map(trimmed_mean, known)), rel=1e-14)
    assert (low[:4], high[:4]) == (list(map(min, known)), list(map(max, known)))
    assert all(math.isnan(each[-1]) for each in (value, low, high))
    assert [each.tolist() for each in _figures([])] == [[], [], []]


def test_plain_names_stay() -> None:
    assert slug("pixel-7_a") == "pixel-7_a"


def test_hostile_names_are_harmless() -> None:
    found = [slug(name) for name in HOSTILE]
    assert all(re.fullmatch(r"[a-z0-9_-]{1,80}", name) for name in found)
    assert len(set(found)) == len(HOSTILE)


def test_names_that_differ_in_case_alone_differ_on_any_disk() -> None:
    names = Names()
    assert len({names.of("Pixel").lower(), names.of("pixel").lower(), names.of("PIXEL").lower()}) == 3


def test_a_unit_that_is_called_like_another_ones_file() -> None:
    names = Names()
    taken = names.of("A b")
    assert names.of(taken) != taken
    assert names.of("A b") == taken


@pytest.mark.slow
@given(st.lists(st.text(st.characters()), unique=True, max_size=20))
def test_names_never_collide(texts: list[str]) -> None:
    names = Names()
    found = [names.of(text) for text in texts]
    assert len(set(found)) == len(texts)
    assert all(re.fullmatch(r"[a-z0-9_-]+", name) for name in found)


def test_parts_are_kept_apart() -> None:
    assert slug("a", "b-c") != slug("a-b", "c")


def test_table() -> None:
    table = Table("Latency", ("Model", "ms"), [("net", "1.5")], frozenset({"Model"}))
    assert markdown(table) == "### Latency\n\n| Model | ms |\n| :--- | ---: |\n| net | 1.5 |"


def test_markup_in_names_is_shown_not_read() -> None:
    row = markdown(Table("", ("Model",), [("<script>|`a`\nb",)])).splitlines()[-1]
    assert row == r"| \<script\>\|\`a\` b |"


def test_names_neither_link_nor_notify() -> None:
    shown = plain("@everyone at https://x.example and www.x.example, a@b")
    assert "@everyone" not in shown and "://" not in shown and "www." not in shown and "@b" not in shown
    assert shown.replace("\u200b", "") == "@everyone at https://x.example and www.x.example, a@b"


def test_report_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "report.md"
    write(
        path, "Demo", [ReportSection("Run", "All fine.", [Table("", ("a",), [("1",)])]), ReportSection("Empty", "", [])]
    )
    assert path.read_text() == "# Demo\n\n## Run\n\nAll fine.\n\n| a |\n| ---: |\n| 1 |\n\n## Empty\n"
