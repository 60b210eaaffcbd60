"""A night as JUnit XML, the form that CI systems read: a test case is a series, a test suite a unit.

Source: the schema that Jenkins' xUnit plug-in publishes (testsuites, testsuite, properties, testcase, failure,
skipped, system-out).
"""

from xml.etree import ElementTree

from farm.decision.judgement import Verdict
from farm.nightly.night import DeviceReport, Night, SeriesReport
from farm.nightly.words import WORDS, case_title, sentence
from farm.report.lines import lines_of
from farm.safe_text import one_line

SKIPPED = (Verdict.SPOILED, Verdict.NEW, Verdict.REPLACED)
MS_PER_S = 1000.0


def junit(night: Night) -> str:
    """The XML document."""
    root = _element("testsuites", name=f"farm nightly {night.run.name}", **_counts(night.series))
    for device in night.devices:
        root.append(_suite(device, night))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(device: DeviceReport, night: Night) -> ElementTree.Element:
    series = lines_of(device)
    suite = _element("testsuite", name=device.unit, timestamp=night.run.started[:19], **_counts(series))
    properties = ElementTree.SubElement(suite, "properties")
    known = {"soc": device.soc, "device_model": device.device_model, **device.fingerprint, "commit": night.run.commit}
    for name, value in known.items():
        properties.append(_element("property", name=name, value=value))
    suite.extend(_case(report) for report in series)
    return suite


def _counts(series: list[SeriesReport]) -> dict[str, str]:
    bad = sum(report.judgement.verdict.is_bad for report in series)
    skipped = sum(report.judgement.verdict in SKIPPED for report in series)
    return {"tests": str(len(series)), "failures": str(bad), "errors": "0", "skipped": str(skipped), "time": "0"}


def _case(report: SeriesReport) -> ElementTree.Element:
    key, judgement = report.key, report.judgement
    name = f"{case_title(key.case)}: {key.metric.info.title}"
    case = _element("testcase", classname=f"{key.case.unit}.{key.case.library}", name=name, time=_seconds(report))
    if judgement.verdict.is_bad:
        failure = _element("failure", type=str(judgement.verdict), message=judgement.reason)
        failure.text = one_line(sentence(report))
        case.append(failure)
    elif judgement.verdict in SKIPPED:
        case.append(_element("skipped", message=f"{WORDS[judgement.verdict].one}: {judgement.reason}"))
    elif judgement.verdict != Verdict.UNCHANGED:
        ElementTree.SubElement(case, "system-out").text = one_line(
            f"{WORDS[judgement.verdict].one}: {sentence(report)}"
        )
    return case


def _seconds(report: SeriesReport) -> str:
    """Tonight's figure where it is a time; CI systems draw it."""
    value = report.judgement.value
    timed = value is not None and report.key.metric.info.unit == "ms" and 0 <= value < 1e12
    return f"{value / MS_PER_S:.6f}" if timed and value is not None else "0"


def _element(tag: str, /, **attributes: str) -> ElementTree.Element:
    """An element whose attributes have no character that XML forbids."""
    return ElementTree.Element(tag, {name: one_line(value) for name, value in attributes.items()})
