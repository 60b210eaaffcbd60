"""The pages in headless Chromium: nothing to complain of, charts drawn, tables that work; screen, phone and paper."""

import csv
import dataclasses
import functools
import io
from itertools import pairwise
from pathlib import Path

import pytest

from farm.report import charts
from farm.report.benchmark_page import benchmark_page
from farm.report.engines_page import engines_page
from farm.report.write import write_reports
from tests.browser import chromium
from tests.browser.chromium import Browser
from tests.farm.report import nights
from tests.farm.report.test_single_pages import many, rows_of

pytestmark = pytest.mark.slow
PHONE_PX, SCREEN_PX = 390, 1280
KINDS = ("index", "device", "series")
LEAST_CONTRAST = 4.5
DRAW_S = 60.0
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reports(nights.night(30), tmp_path_factory.mktemp("reports") / "usual").folder


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reports(nights.hostile(6), tmp_path_factory.mktemp("reports") / "hostile").folder


def page(report: Path, kind: str) -> Path:
    """The first page of a kind; of series the latency of the model that became slower."""
    if kind == "index":
        return report / "index.html"
    if kind == "device":
        known = report / "devices" / "pixel.html"
        return known if known.exists() else min((report / "devices").iterdir())
    found = sorted((report / "series").iterdir())
    return next((path for path in found if path.name.startswith("pixel-mobilenet_v1-gpu-default-latency_ms")), found[0])


def draw_all(browser: Browser) -> int:
    """Scrolls every chart into view, and waits until all are drawn; how many there are."""
    count: int = browser.run("return document.querySelectorAll('.chart').length")
    drawn = "return document.querySelectorAll('.chart')[arguments[0]].dataset.drawn === 'yes'"
    for number in range(count):
        browser.run("document.querySelectorAll('.chart')[arguments[0]].scrollIntoView()", number)
        browser.wait_until(functools.partial(browser.run, drawn, number), DRAW_S)
    return count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("whose", ["report", "hostile"])
def test_pages_log_no_error_request_local_files_only_and_can_be_read(
    browser: Browser, request: pytest.FixtureRequest, whose: str, kind: str, theme: str
) -> None:
    browser.size(SCREEN_PX)
    browser.theme(theme)
    browser.open(page(request.getfixturevalue(whose), kind))
    assert (draw_all(browser) > 0) == (kind != "index")
    assert browser.complaints() == []
    asked = browser.requests()
    assert asked
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
    found = browser.run(CONTRAST)
    assert len(found) > 20
    assert [each for each in found if each["contrast"] < LEAST_CONTRAST] == []


def test_a_complaint_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    """The checks above would notice a script or a picture from elsewhere, and inline script."""
    base = (Path(write_reports(nights.night(6), tmp_path / "report").index)).read_text()
    (tmp_path / "report" / "index.html").write_text(
        base.replace("</main>", '<img src="http://127.0.0.1:9/x.png"><script>window.bad = 1</script></main>')
    )
    browser.open(tmp_path / "report" / "index.html")
    assert len([each for each in browser.complaints() if "Content Security Policy" in each]) >= 2
    assert browser.run("return window.bad") is None


@pytest.mark.parametrize("kind", ["device", "series"])
def test_charts_have_points(browser: Browser, report: Path, kind: str) -> None:
    browser.size(SCREEN_PX)
    browser.open(page(report, kind))
    draw_all(browser)
    marks = browser.run(
        "return [...document.querySelectorAll('.chart')].map((box) => "
        "box.querySelectorAll('.point, .points path, .lines path, .box, path.js-line').length)"
    )
    assert all(count > 0 for count in marks), marks


def test_history_shows_change_points_and_spoiled_nights(browser: Browser, report: Path) -> None:
    browser.size(SCREEN_PX)
    browser.open(page(report, "series"))
    draw_all(browser)
    plot = "document.querySelector('.plot')"
    assert browser.run(f"return {plot}.layout.shapes.length") == 2
    names = browser.run(f"return {plot}.data.map((trace) => trace.name)")
    assert {"level", "night", "with re-runs", "spoiled, left out"} <= set(names)
    assert browser.run(f"return {plot}.querySelectorAll('.annotation').length") == 2


@pytest.mark.parametrize("width", [PHONE_PX, SCREEN_PX])
def test_the_nights_of_one_day_are_drawn_apart(browser: Browser, tmp_path: Path, width: int) -> None:
    """By the coordinates of the drawn marks: equally far apart, over most of the picture."""
    browser.size(width)
    browser.open(page(write_reports(nights.slow_night(), tmp_path / "report").folder, "series"))
    draw_all(browser)
    places = sorted(
        browser.run(
            "return [...document.querySelectorAll('.scatterlayer .points path.point')]"
            ".map((mark) => { const box = mark.getBoundingClientRect(); return box.left + box.width / 2; })"
        )
    )
    steps = [after - before for before, after in pairwise(places)]
    axis = browser.run("return [...document.querySelectorAll('.xtick')].map((each) => each.textContent)")
    assert axis[0].endswith("21 Nov 2025") and len(axis) >= 3 and all(":" in text for text in axis)
    assert len(places) == 9 and min(steps) > 0.9 * max(steps)
    assert places[-1] - places[0] > 0.7 * browser.run("return document.querySelector('.plot').clientWidth")


def test_nights_without_a_figure_stand_off_the_axis(browser: Browser, tmp_path: Path) -> None:
    night = nights.night(30)
    series = night.devices[0].cases[0].series
    points = [*series[0].points]
    points[5] = dataclasses.replace(points[5], runs=(), status="timeout", reason="no answer")
    series[0] = dataclasses.replace(series[0], points=points)  # type: ignore[index]
    browser.size(SCREEN_PX)
    browser.open(page(write_reports(night, tmp_path / "report").folder, "series"))
    draw_all(browser)
    plot = "document.querySelector('.plot')"
    figures, strip = browser.run(f"return [{plot}.layout.yaxis.domain, {plot}.layout.yaxis2.domain]")
    assert strip[1] < figures[0], "a strip of its own"
    absent = f"{plot}.data.find((trace) => trace.name === 'no figure')"
    assert browser.run(f"return [{absent}.yaxis, {absent}.x.length]") == ["y2", 1]
    assert "no figure" in browser.run(f"return {plot}.textContent")


def test_an_axis_that_does_not_begin_at_zero_says_so(browser: Browser, report: Path) -> None:
    browser.size(SCREEN_PX)
    browser.open(page(report, "device"))
    draw_all(browser)
    notes = browser.run(
        "return [...document.querySelectorAll('.chart')]"
        ".map((box) => [box.classList[1], box.querySelector('.axis-note').textContent])"
    )
    said = dict(notes)
    assert "not begin at zero" in said["distribution"] and said["operators"] == ""


@pytest.mark.parametrize("kind", ["device", "series"])
def test_every_chart_offers_its_figures_as_rows(browser: Browser, report: Path, kind: str) -> None:
    browser.size(SCREEN_PX)
    browser.open(page(report, kind))
    count = draw_all(browser)
    links = browser.run("return [...document.querySelectorAll('.chart-rows')].map((box) => box.textContent)")
    assert len(links) == count and all("CSV JSON" in text for text in links)
    tables = browser.run(
        "return [...document.querySelectorAll('.chart')].map((box) => "
        "{ const chart = chartRows.whole(JSON.parse(document.getElementById(box.dataset.chart).textContent));"
        " return [chartRows.rows(chart), chartRows.csv(chartRows.rows(chart))]; })"
    )
    for rows, text in tables:
        assert list(csv.DictReader(io.StringIO(text))) == [
            {name: "" if value is None else cell(value) for name, value in row.items()} for row in rows
        ]
    if kind == "series":
        assert len(tables[0][0]) == 30 and {"run", "time", "value", "state"} <= set(tables[0][0][0])


def test_a_packed_history_becomes_the_whole_one(browser: Browser, report: Path) -> None:
    browser.open(page(report, "series"))
    usual, hostile = nights.night(30).devices[0].cases[0].series[0], nights.hostile(6).devices[0].cases[0].series[0]
    odd = [dataclasses.replace(point, time="", temperature_c=None) for point in usual.points[:3]]
    for series in (usual, hostile, dataclasses.replace(usual, points=[*odd, *usual.points[3:]])):
        made = browser.run("return chartRows.whole(arguments[0])", charts.packed_history(series))
        assert made == charts.history(series)


def cell(value: object) -> str:
    """A figure as JavaScript writes it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def test_a_figure_is_saved_as_a_file(browser: Browser, report: Path, tmp_path: Path) -> None:
    browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.size(SCREEN_PX)
    browser.open(page(report, "series"))
    draw_all(browser)
    browser.run("document.querySelector('.chart-rows a').click()")
    browser.wait_until(lambda: list(tmp_path.glob("*.csv")), DRAW_S)
    (saved,) = tmp_path.glob("*.csv")
    assert saved.name.endswith("-history.csv") and len(saved.read_text().splitlines()) == 31
    assert browser.complaints() == []


def shown(browser: Browser) -> list[list[str]]:
    """Cells of the rows of the table of all series that can be seen."""
    found: list[list[str]] = browser.run(
        "return [...document.querySelectorAll('#series tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    )
    return found


def test_filters_hide_rows(browser: Browser, report: Path) -> None:
    browser.size(SCREEN_PX)
    browser.open(report / "index.html")
    count = len(shown(browser))
    find = browser.driver.find_element
    find("css selector", "[name=text]").send_keys("latency squeeze")
    assert {tuple(row[1:3]) for row in shown(browser)} == {("Latency", "squeezenet")}
    assert find("css selector", ".filters output").text == f"{len(shown(browser))} of {count} series"
    find("css selector", "[name=device]").send_keys("mi8")
    assert {row[4] for row in shown(browser)} == {"mi8"}
    find("css selector", "[name=verdict]").send_keys("missing")
    assert [row[0].split()[-1] for row in shown(browser)] == ["missing"]
    find("css selector", "[name=text]").send_keys("nothing at all")
    assert shown(browser) == []


def test_a_click_on_a_heading_sorts(browser: Browser, report: Path) -> None:
    browser.size(SCREEN_PX)
    browser.open(report / "index.html")
    heads = browser.driver.find_elements("css selector", "#series thead th")
    change = next(head for head in heads if head.text.startswith("Change"))
    column = heads.index(change)
    change.find_element("tag name", "button").click()
    values = browser.run(
        "return [...document.querySelectorAll('#series tbody tr')]"
        ".map((row) => Number(row.cells[arguments[0]].dataset.v))",
        column,
    )
    assert values == sorted(values) and len(set(values)) > 5
    assert [head.get_attribute("aria-sort") for head in heads].count("ascending") == 1
    change.find_element("tag name", "button").click()
    assert change.get_attribute("aria-sort") == "descending"
    assert "pixel" in " ".join(shown(browser)[0])


def test_a_key_on_a_heading_sorts(browser: Browser, report: Path) -> None:
    browser.size(SCREEN_PX)
    browser.open(report / "index.html")
    head = browser.driver.find_elements("css selector", "#series thead th")[2]
    button = head.find_element("tag name", "button")
    button.send_keys(chromium.ENTER)
    names = [row[2] for row in shown(browser)]
    assert head.get_attribute("aria-sort") == "ascending" and names == sorted(names)
    button.send_keys(chromium.SPACE)
    assert [row[2] for row in shown(browser)] == sorted(names, reverse=True)
    assert browser.run("return document.activeElement.textContent") == "Model"


@pytest.mark.parametrize("whose", ["report", "hostile"])
def test_links_resolve(browser: Browser, request: pytest.FixtureRequest, whose: str) -> None:
    folder: Path = request.getfixturevalue(whose)
    for kind in KINDS:
        at = page(folder, kind)
        browser.open(at)
        targets = browser.run("return [...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
        assert targets
        for target in targets:
            path, _, anchor = target.partition("#")
            file = (at.parent / path).resolve() if path else at
            assert file.is_file() and folder.resolve() in file.parents, target
            assert not anchor or f'id="{anchor}"' in file.read_text(), target


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("whose", ["report", "hostile"])
def test_a_phones_screen_is_wide_enough(
    browser: Browser, request: pytest.FixtureRequest, whose: str, kind: str
) -> None:
    browser.size(PHONE_PX)
    browser.open(page(request.getfixturevalue(whose), kind))
    draw_all(browser)
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE_PX
    over = browser.run(
        "return [...document.querySelectorAll('main > *, .chart, .plot, .scroll')]"
        f".filter((box) => box.getBoundingClientRect().right > {PHONE_PX}).length"
    )
    assert over == 0


@pytest.mark.parametrize(("kind", "least"), [("index", 2), ("series", 1)])
def test_on_a_phone_cells_of_cards_lie_beside_nothing_else(
    browser: Browser, report: Path, kind: str, least: int
) -> None:
    """Latencies by SoC, operators to blame, and the changes of a series: no cell runs over, none is off-screen."""
    browser.size(PHONE_PX)
    browser.open(page(report, kind))
    assert browser.run("return document.querySelectorAll('.matrix, .cards').length") >= least
    over = browser.run(
        "return [...document.querySelectorAll('.matrix td, .cards td')].filter((cell) => "
        f"cell.scrollWidth > cell.clientWidth || cell.getBoundingClientRect().right > {PHONE_PX})"
        ".map((cell) => cell.textContent)"
    )
    assert over == []


@pytest.mark.parametrize("kind", KINDS)
def test_paper_is_light_and_has_all_charts(browser: Browser, report: Path, kind: str) -> None:
    browser.size(SCREEN_PX)
    browser.theme("dark")
    browser.open(page(report, kind))
    browser.run(
        "addEventListener('afterprint', () => { window.drawn = "
        "[...document.querySelectorAll('.chart')].map((box) => box.dataset.drawn); })"
    )
    made = browser.pdf()
    assert made.startswith(b"%PDF") and len(made) > 10_000
    assert set(browser.run("return window.drawn")) <= {"yes"}
    assert browser.run("return document.documentElement.getAttribute('data-theme')") is None
    assert browser.complaints() == []


def test_the_theme_can_be_chosen_and_is_remembered(browser: Browser, report: Path) -> None:
    browser.size(SCREEN_PX)
    browser.theme("light")
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.open(page(report, "series"))
    draw_all(browser)
    light, ink = browser.run(ground), browser.run("return document.querySelector('.plot').layout.font.color")
    button = browser.driver.find_element("id", "theme")
    button.click()
    button.click()
    assert button.text == "Theme: dark" and button.get_attribute("title") == "Switch to automatic"
    assert browser.run(ground) != light
    assert browser.run("return document.querySelector('.plot').layout.font.color") != ink
    browser.open(report / "index.html")
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    browser.run("localStorage.clear()")


@pytest.mark.parametrize("kind", KINDS)
def test_headings_tables_and_charts_are_named_for_screen_readers(browser: Browser, report: Path, kind: str) -> None:
    browser.open(page(report, kind))
    levels = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4')].map((each) => Number(each.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert browser.run("return document.querySelectorAll('th:not([scope])').length") == 0
    assert (
        browser.run("return document.querySelectorAll('.plot:not([aria-label]), .plot[aria-label=\"\"]').length") == 0
    )
    unnamed = "[...document.querySelectorAll('input, select')].filter((each) => !each.labels.length).length"
    assert browser.run(f"return {unnamed}") == 0
    repeated = "[...document.querySelectorAll('[id]')].map((each) => each.id)"
    ids = browser.run(f"return {repeated}")
    assert len(ids) == len(set(ids))
    assert browser.run("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE_PX, SCREEN_PX])
def test_the_page_of_a_benchmark_is_readable_alone(browser: Browser, tmp_path: Path, width: int, theme: str) -> None:
    """One file of a thousand operators: nothing asked for, nothing cut, enough contrast, links that lead somewhere."""
    file = tmp_path / "benchmark.html"
    file.write_text(benchmark_page([many(1000), many(5)]))
    browser.size(width)
    browser.theme(theme)
    browser.open(file)
    assert browser.complaints() == []
    assert [address for address in browser.requests() if not address.startswith(("file:", "data:"))] == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelectorAll('#model-1-graph ~ .graph li').length") == 1000
    cut = "[...document.querySelectorAll('.graph .n')].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length"
    assert browser.run(f"return {cut}") == 0
    assert [each for each in browser.run(CONTRAST) if each["contrast"] < LEAST_CONTRAST] == []
    browser.run("document.querySelector('.slow a').click()")
    shown = "document.querySelector('.graph li:target').getBoundingClientRect()"
    top, bottom = browser.run(f"return [{shown}.top, {shown}.bottom]")
    assert 0 <= top < bottom <= 900


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE_PX, SCREEN_PX])
def test_the_page_of_engines_is_readable_alone(browser: Browser, tmp_path: Path, width: int, theme: str) -> None:
    file = tmp_path / "engines.html"
    units = ("pixel", "board")
    file.write_text(engines_page([row for unit in units for row in rows_of(unit, farmrt=2.0, mnn=1.0, ncnn=7.0)]))
    browser.size(width)
    browser.theme(theme)
    browser.open(file)
    assert browser.complaints() == []
    assert [address for address in browser.requests() if not address.startswith(("file:", "data:"))] == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelectorAll('.race circle').length") == 2 * 3 * 10
    assert [each for each in browser.run(CONTRAST) if each["contrast"] < LEAST_CONTRAST] == []
