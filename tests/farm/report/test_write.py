"""All formats of a night, a hostile one too."""

import dataclasses
import html.parser
import json
import os
import re
import threading
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from farm.decision.judgement import Verdict
from farm.nightly.night import Night
from farm.report import pages
from farm.report.junit import junit
from farm.report.merge_request import merge_request
from farm.report.operator_trace import most_changed, operator_trace, slowest
from farm.report.pages import script_json
from farm.report.write import ReportFormat, write_reports
from tests.farm.report import nights
from tests.farm.report.nights import HOSTILE

# Neither control characters nor what reverses the direction of text; line ends are ours.
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
OWN_SCRIPTS = {"theme.js", "plotly.min.js", "charts.js", "rows.js", "tables.js"}


@pytest.fixture(scope="module")
def usual() -> Night:
    return nights.night(12)


@pytest.fixture(scope="module")
def hostile() -> Night:
    return nights.hostile(4)


@pytest.fixture(scope="module")
def hostile_report(hostile: Night, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "hostile"
    return write_reports(hostile, folder).folder


class Markup(html.parser.HTMLParser):
    """What a browser makes of a page: elements with attributes, and the content of data scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data: list[str] = []
        self._in_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_data = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data.append(data)
            self._in_data = False


@pytest.mark.parametrize("pattern", ["index.html", pytest.param("*/*.html", marks=pytest.mark.slow)])
def test_names_and_texts_of_others_make_no_markup(hostile_report: Path, pattern: str) -> None:
    for page in hostile_report.glob(pattern):
        text = page.read_text()
        markup = Markup(text)
        scripts = [attributes for tag, attributes in markup.elements if tag == "script"]
        sources = {Path(each["src"] or "").name for each in scripts if "src" in each}
        assert sources <= OWN_SCRIPTS
        assert all(each.get("type") == "application/json" for each in scripts if "src" not in each)
        assert not [name for _, attributes in markup.elements for name in attributes if name.startswith("on")]
        assert not FORBIDDEN.search(text)
        assert all(json.loads(data) for data in markup.data)


def test_pages_link_to_nothing_outside(hostile_report: Path) -> None:
    for page in hostile_report.rglob("*.html"):
        for _, attributes in Markup(page.read_text()).elements:
            for name in ("href", "src"):
                target = attributes.get(name) or "#"
                assert target == "data:," or target.startswith("#") or (page.parent / target.split("#")[0]).is_file()


def test_files_stay_in_the_folder(hostile_report: Path) -> None:
    assert {path.name for path in hostile_report.parent.iterdir()} == {"hostile"}
    assert all(re.fullmatch(r"[a-z0-9_.-]+", path.name) for path in hostile_report.rglob("*"))


def test_markdown_of_hostile_names_has_no_markup(hostile: Night) -> None:
    text = merge_request(hostile)
    assert not FORBIDDEN.search(text)
    assert not re.search(r"(?<!\\)[<`*\[]", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {9}


def test_markdown_is_cut_with_a_count(usual: Night) -> None:
    whole, cut = merge_request(usual), merge_request(usual, 2000)
    assert len(cut.encode()) <= 2000
    rows = sum(line.startswith("| ") for line in whole.splitlines())
    kept = sum(line.startswith("| ") for line in cut.splitlines())
    assert 2 < kept < rows
    assert f"… and {rows - kept} more, all in the report." in cut
    assert "more, all in the report" not in whole


def test_markdown_has_the_worst_first(usual: Night) -> None:
    rows = [line.split(" | ")[0] for line in merge_request(usual).splitlines() if line.startswith("| ")]
    assert rows[2:6] == ["| wrong result"] * 3 + ["| regression"]
    assert "| unchanged" not in rows


def test_junit_counts_and_forbidden_characters(usual: Night, hostile: Night) -> None:
    root = ElementTree.fromstring(junit(usual))
    suites = root.findall("testsuite")
    assert [suite.get("name") for suite in suites] == [phone.unit for phone in nights.PHONES]
    for element in (root, *suites):
        cases = element.findall(".//testcase")
        assert element.get("tests") == str(len(cases))
        assert element.get("failures") == str(len(element.findall(".//failure")))
        assert element.get("skipped") == str(len(element.findall(".//skipped")))
    bad = [each for each in usual.series if each.judgement.verdict.is_bad]
    assert root.get("failures") == str(len(bad)) == "7"
    assert {each.get("type") for each in root.iter("failure")} == {"wrong_result", "regression", "failed", "missing"}
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(names) == len(set(names)) == len(usual.series)
    text = junit(hostile)
    assert not FORBIDDEN.search(text)
    assert len(list(ElementTree.fromstring(text).iter("testcase"))) == len(hostile.series)


def test_json_holds_all_judgements_and_no_nan(hostile_report: Path, hostile: Night) -> None:
    text = (hostile_report / "night.json").read_text()
    document = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    series = [each for device in document["devices"] for case in device["cases"] for each in case["series"]]
    assert document["schema_version"] == 1
    assert len(series) == len(hostile.series)
    assert [device["unit"] for device in document["devices"]] == list(HOSTILE)
    assert text.isascii()


def test_traces_of_the_slowest_and_the_most_changed(usual: Night) -> None:
    slow, changed = slowest(usual), most_changed(usual)
    assert slow and changed and changed.row and changed.before
    assert (slow.case.model, slow.case.runtime) == ("resnet50", "cpu")
    assert changed.case.model in ("mobilenet_v1", "squeezenet")
    events = json.loads(operator_trace(changed))["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"].split(",")[0] for event in events if event["name"] == "thread_name"}
    assert tracks == {1: "tonight", 2: "before"}
    tonight = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
    assert [event["name"] for event in tonight] == [op.name for op in changed.row.ops]
    assert sum(event["dur"] for event in tonight) == pytest.approx(1000 * sum(op.avg_ms for op in changed.row.ops))
    assert all(one["ts"] + one["dur"] == pytest.approx(next_["ts"]) for one, next_ in pairwise(tonight))


def test_only_the_wanted_formats(usual: Night, tmp_path: Path) -> None:
    written = write_reports(usual, tmp_path / "report", [ReportFormat.MARKDOWN])
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"summary.md", "night.json"}
    assert written.index == tmp_path / "report"


@pytest.mark.slow
def test_pages_say_what_is_missing(usual: Night, tmp_path: Path) -> None:
    written = write_reports(usual, tmp_path / "report", [ReportFormat.HTML])
    text = written.index.read_text()
    assert "Not measured; last measured the night before" in text
    assert "device_lost: the unit went away" in text
    assert "Every measurement was spoiled" in text
    device = (tmp_path / "report" / "devices" / "mi8.html").read_text()
    assert "not measured tonight" in device and "No times were measured tonight" in device


def test_without_controls_nothing_is_promised(usual: Night, tmp_path: Path) -> None:
    night = dataclasses.replace(usual, control=None, devices=usual.devices[:1])
    assert "Too few nights yet" in write_reports(night, tmp_path / "report").index.read_text()
    assert "too few nights yet" in merge_request(night)


def test_a_night_of_nothing(usual: Night, tmp_path: Path) -> None:
    night = dataclasses.replace(usual, devices=[])
    written = write_reports(night, tmp_path / "report")
    assert "Nothing was measured" in written.index.read_text()
    assert ElementTree.parse(tmp_path / "report" / "junit.xml").getroot().get("tests") == "0"


def test_every_verdict_has_a_section_or_is_unchanged(hostile_report: Path, hostile: Night) -> None:
    verdicts = {each.judgement.verdict for each in hostile.series}
    assert verdicts == set(Verdict)
    text = (hostile_report / "index.html").read_text()
    assert all(f'id="{anchor}"' in text for anchor in ("worse", "failed", "perhaps", "better", "spoiled", "new"))


def test_script_json_cannot_end_its_element() -> None:
    value = {"</script><!--": ["]]>", "<script>", "&amp;"]}
    text = str(script_json(value))
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


@pytest.mark.slow
def test_any_number_of_processes_writes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night = nights.many(40, 10)
    monkeypatch.setattr(pages, "MANY_SERIES", 1)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    written = []
    for cores in ({0}, {0, 1}, {0, 1, 2}):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: cores)
        files = write_reports(night, tmp_path / str(len(cores))).files
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] == written[1] == written[2] and len(written[0]) > 40
