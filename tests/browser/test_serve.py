"""The pages of `farm serve` in headless Chromium: live, both themes, a phone's screen, keyboard alone, 500 units."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from farm.cluster.queue import TaskReport
from farm.report.write import write_reports
from farm.rows.device_state import DeviceState
from farm.serve.service import FarmService
from farm.store import Store, schema
from farm.units.survey import UnitState
from tests.browser import chromium
from tests.browser.chromium import Browser
from tests.browser.test_pages import CONTRAST, LEAST_CONTRAST, PHONE_PX, SCREEN_PX, draw_all
from tests.farm.report import nights
from tests.farm.rows.nightly_rows import nightly_case
from tests.farm.serve.rack import FolderOfHost, Rack, job_report, service_of_rack, serving
from tests.farm.test_artifacts import publish

pytestmark = pytest.mark.slow
UNITS = 500
WAIT_S = 60.0
PATHS = (
    "/",
    "/units/phone-003",
    "/runs",
    "/night",
    "/night?name=lab",
    "/history?night=lab&unit=phone-003",
    "/reports",
    "/artifacts",
    "/hosts/beta/reports/lab%20of%20beta/",
)


@pytest.fixture
def rack() -> Rack:
    return Rack(UNITS)


@pytest.fixture
def service(rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarmService:
    monkeypatch.chdir(tmp_path)
    with Store.open("farm.db") as store:
        for seed in (1, 2):
            run = store.begin("lab", "farm nightly nightly.yml")
            store.add(run, [nightly_case(unit="phone-003", seed=seed)])
            store.end(run)
        store.begin("tune", "farm tune resnet50.yml --all")
        run = store.begin("lab of beta", "farm nightly nightly.yml")
        store.add(run, [nightly_case(unit="phone-004")])
        store.end(run)
        with store.writing() as connection:
            elsewhere = update(schema.runs).where(schema.runs.c.id == run)
            connection.execute(elsewhere.values(process="beta boot 1 1"))
    write_reports(nights.night(6), Path("reports/usual"))
    write_reports(nights.night(3), tmp_path / "beta/reports/lab of beta")
    for folder in (tmp_path, tmp_path / "beta"):
        publish(folder / "build/lib/opencl/host")
    gamma = FolderOfHost("gamma", tmp_path)
    gamma.error = "did not answer within 45 s"
    return service_of_rack(rack, tmp_path, others=[FolderOfHost("beta", tmp_path / "beta"), gamma])


@pytest.fixture
def address(service: FarmService) -> Iterator[str]:
    with serving(service) as found:
        yield found


def visit(browser: Browser, address: str) -> None:
    """Opens a page; what was logged before is forgotten."""
    browser.complaints()
    browser.requests()
    browser.driver.get(address)


def wait_until(browser: Browser, script: str) -> None:
    browser.wait_until(lambda: browser.run(f"return {script}"), WAIT_S)


def test_pages_have_no_fault_in_either_theme_and_any_width(browser: Browser, address: str) -> None:
    for path in PATHS:
        for theme in ("light", "dark"):
            for width in (SCREEN_PX, PHONE_PX):
                where = f"{path} {theme} {width}"
                browser.theme(theme)
                browser.size(width)
                visit(browser, address + path)
                assert (draw_all(browser) > 0) == path.startswith("/history"), where
                assert browser.complaints() == [], where
                assert all(one.startswith((address, "data:", "blob:")) for one in browser.requests()), where
                assert browser.run("return document.documentElement.scrollWidth") <= width, where
                if path != "/":  # of 500 rows the first ones say all
                    faint = [found for found in browser.run(CONTRAST) if found["contrast"] < LEAST_CONTRAST]
                    assert faint == [], where


def test_a_change_is_seen_without_loading_the_page(
    browser: Browser, service: FarmService, rack: Rack, address: str
) -> None:
    browser.size(SCREEN_PX)
    visit(browser, address)
    wait_until(browser, "document.getElementById('live').classList.contains('on')")
    browser.run("document.querySelector('tr[data-name=phone-000] a').focus(); window.before = 'still here'")
    service.source.reserve("phone-000", 7200.0, "<b>flashing</b>", "alice", False)
    rack.change("phone-001", device=DeviceState(temperature_c=77.0))
    rack.reports = [report for report in rack.reports if report.unit.name != "phone-004"]
    service.watcher.look()
    row = "document.querySelector('tr[data-name=phone-000]')"
    wait_until(browser, f"{row}.dataset.state === 'reserved'")
    assert "alice until" in browser.run(f"return {row}.textContent") and "<b>flashing</b>" in browser.run(
        f"return {row}.textContent"
    )
    assert "77 °C" in browser.run("return document.querySelector('tr[data-name=phone-001]').textContent")
    assert browser.run("return document.querySelector('tr[data-name=phone-004]')") is None
    assert browser.run("return document.activeElement.textContent") == "phone-000", "focus stays"
    assert browser.run("return window.before") == "still here"
    assert browser.run("return document.getElementById('count').textContent") == str(UNITS - 1)
    assert browser.complaints() == []


def shown_units(browser: Browser) -> list[str]:
    """The names of the rows that can be seen."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('#units tbody tr')]"
        ".filter((row) => !row.hidden).map((row) => row.dataset.name)"
    )
    return found


def test_units_are_filtered(browser: Browser, address: str) -> None:
    browser.size(SCREEN_PX)
    visit(browser, address)
    assert len(shown_units(browser)) == UNITS
    browser.driver.find_element("css selector", "[name=state]").send_keys("reserved")
    assert set(shown_units(browser)) == {
        report.unit.name for report in Rack(UNITS).reports if report.state == UnitState.RESERVED
    }
    browser.driver.find_element("css selector", "[name=text]").send_keys("bob phone-008")
    assert shown_units(browser) == ["phone-008"]
    assert browser.driver.find_element("css selector", ".sieve output").text == f"1 of {UNITS} units"


def test_a_unit_is_reserved_by_keyboard_alone(browser: Browser, service: FarmService, rack: Rack, address: str) -> None:
    token = service.tokens.add("alice")
    browser.size(SCREEN_PX)
    visit(browser, f"{address}/units/phone-000")

    def press(*keys: str) -> None:
        browser.driver.switch_to.active_element.send_keys(*keys)

    def tab_to(selector: str) -> None:
        for _ in range(60):
            press(chromium.TAB)
            if browser.run("return document.activeElement.matches(arguments[0])", selector):
                return
        raise AssertionError(f"the tabulator never reaches {selector}")

    tab_to("[name=token]")
    press(token, chromium.ENTER)
    wait_until(browser, "document.body.textContent.includes('Signed in as alice')")
    visit(browser, f"{address}/units/phone-000")
    tab_to("[name=reason]")
    press("flashing", chromium.ENTER)
    wait_until(browser, "document.querySelector('.said')?.textContent.includes('reserved by alice')")
    assert rack.asked == [("reserve", "phone-000", 7200.0, "flashing", "alice", False)]
    assert browser.complaints() == []


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarmService:
    """A service of 500 units on three hosts, and jobs that want them."""
    monkeypatch.chdir(tmp_path)
    rack = Rack(UNITS, ("alpha", "beta", "gamma"))
    waits = [TaskReport(f"phone-{number:03}", "resnet50", "waiting") for number in range(9)]
    rack.queue = [job_report(1, TaskReport("phone-001", "resnet50", "running"), *waits), job_report(2, *waits[:1])]
    return service_of_rack(rack, tmp_path)


def test_units_are_filtered_by_host_and_the_queue_is_live(browser: Browser, cluster: FarmService) -> None:
    token = cluster.tokens.add("alice")
    with serving(cluster) as address:
        browser.size(SCREEN_PX)
        visit(browser, address)
        browser.driver.find_element("css selector", "[name=host]").send_keys("beta")
        assert shown_units(browser) == [f"phone-{number:03}" for number in range(1, UNITS, 3)]
        browser.driver.find_element("css selector", "[name=token]").send_keys(token, chromium.ENTER)
        wait_until(browser, "document.body.textContent.includes('Signed in as alice')")
        for theme in ("light", "dark"):
            for width in (PHONE_PX, SCREEN_PX):
                browser.theme(theme)
                browser.size(width)
                visit(browser, f"{address}/queue")
                wait_until(browser, "document.getElementById('live').classList.contains('on')")
                assert browser.complaints() == [], (theme, width)
                assert browser.run("return document.documentElement.scrollWidth") <= width, (theme, width)
                faint = [found for found in browser.run(CONTRAST) if found["contrast"] < LEAST_CONTRAST]
                assert faint == [], (theme, width)
        source = cluster.source
        assert isinstance(source, Rack)
        source.queue.append(job_report(3, TaskReport("phone-003", "<b>tiny</b>", "running")))
        cluster.queue.look()
        wait_until(browser, "document.querySelector('tr[data-name=job3]')?.textContent.includes('<b>tiny</b>')")
        browser.run("document.querySelector('tr[data-name=job3] button').focus()")
        source.queue[2] = job_report(3, TaskReport("phone-003", "tiny", "waiting"))
        cluster.queue.look()
        wait_until(browser, "document.querySelector('tr[data-name=job3]').dataset.state === 'waiting'")
        browser.driver.switch_to.active_element.send_keys(chromium.ENTER)
        wait_until(browser, "document.querySelector('.said')?.textContent.includes('job job3: is told to end')")
        assert source.asked == [("cancel", "job3", "alice")] and browser.complaints() == []


def test_of_500_units_only_the_cells_that_changed_are_drawn_anew(
    browser: Browser, service: FarmService, rack: Rack, address: str
) -> None:
    browser.size(SCREEN_PX)
    visit(browser, address)
    wait_until(browser, "document.getElementById('live').classList.contains('on')")
    browser.run(
        "window.drawn = []; new MutationObserver((changes) => { for (const {target} of changes)"
        " window.drawn.push(target.cellIndex === undefined ? target.tagName : target.cellIndex); })"
        ".observe(document.querySelector('#units tbody'), {childList: true, subtree: true})"
    )
    rack.reports = [dataclasses.replace(report, device=DeviceState(temperature_c=71.0)) for report in rack.reports]
    rack.change("phone-499", device=DeviceState(temperature_c=72.0))
    service.watcher.look()
    wait_until(browser, "document.querySelector('tr[data-name=phone-499]').cells[4].textContent === '72 °C'")
    heat, battery = 4, 5
    assert sorted(browser.run("return window.drawn")) == [heat] * UNITS + [battery] * UNITS
