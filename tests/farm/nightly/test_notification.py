"""The verdict for machines, and the command that is told of it."""

import hashlib
import hmac
import json
import sys
from pathlib import Path

import pytest

from farm.decision.judgement import Judgement, Verdict
from farm.nightly import notification
from farm.nightly.night import CaseReport, DeviceReport, Night, NightOutcome, SeriesReport
from farm.nightly.notification import notify, verdict_members
from farm.rows.run_info import RunInfo
from farm.rows.series import Case, Metric, SeriesKey
from runtime.errors import FarmError
from tests.farm.nightly.web_receiver import WebReceiver

CASE = Case("pixel", "mobilenet", "mobilenet_v1", "gpu", "default")
WORSE = Judgement(Verdict.REGRESSION, "9.8 % slower", value=11.0, baseline=10.0, ratio=1.098, low=1.08, high=1.12)


def night(*judgements: Judgement) -> Night:
    metrics = list(Metric)
    series = [SeriesReport(SeriesKey(CASE, metrics[at]), (), judgement) for at, judgement in enumerate(judgements)]
    device = DeviceReport("pixel", "sdm845", "Pixel", {}, [CaseReport(CASE, None, None, series)])
    return Night(
        RunInfo(7, "lab", "farm nightly lab.yml", "2026-01-01T00:00:00+00:00", commit="abc"), "series", [device]
    )


def test_the_json_lists_only_series_that_changed() -> None:
    found = verdict_members(night(WORSE, Judgement(Verdict.UNCHANGED, "as before")), "reports/lab/index.html")
    assert (found["outcome"], found["run"], found["commit"]) == ("worse", 7, "abc")
    assert found["counts"] == {"unchanged": 1, "regression": 1}
    (told,) = found["series"]
    assert (told["unit"], told["metric"], told["interval"]) == ("pixel", "latency_ms", [1.08, 1.12])


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_outcome_is_worse_for_every_bad_verdict(verdict: Verdict) -> None:
    bad = verdict in (Verdict.REGRESSION, Verdict.WRONG_RESULT, Verdict.FAILED, Verdict.MISSING)
    assert night(Judgement(verdict, "")).outcome == (NightOutcome.WORSE if bad else NightOutcome.GOOD)


def test_the_command_gets_the_verdict_on_standard_input_without_a_shell(tmp_path: Path) -> None:
    script = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    target = tmp_path / "a file; rm $(x)"
    verdict = verdict_members(night(WORSE))
    notify([sys.executable, "-c", script, str(target)], verdict)
    assert json.loads(target.read_text()) == {"schema_version": 1, **verdict}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/notify"], "cannot be run: No such file"),
        ([sys.executable, "-c", "import sys; sys.exit('no \x1b[31m mail')"], "ended with status 1: no"),
    ],
)
def test_a_command_that_fails_is_an_error_with_its_message(command: list[str], said: str) -> None:
    with pytest.raises(FarmError, match=said):
        notify(command, {})


@pytest.mark.slow
def test_a_command_that_hangs_is_ended_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.nightly.notification.NOTIFY_S", 0.2)
    with pytest.raises(FarmError, match="did not end within"):
        notify([sys.executable, "-c", "import time; time.sleep(60)"], {})


BODY, SECRET = b'{"schema_version": 1}', b"secret"


def sent(receiver: WebReceiver, secret: bytes = SECRET) -> list[float]:
    """Sends; the pauses that were made before the attempts."""
    pauses: list[float] = []
    notification.send(receiver.url, BODY, secret, (2.0, 10.0), pauses.append)
    return pauses


def test_the_body_is_signed() -> None:
    with WebReceiver() as receiver:
        assert sent(receiver) == [0.0]
    ((headers, body),) = receiver.got
    assert body == BODY and (headers["Content-Type"], headers["X-Farm-Event"]) == ("application/json", "night")
    assert headers["X-Farm-Signature"] == "sha256=" + hmac.new(SECRET, BODY, hashlib.sha256).hexdigest()


@pytest.mark.slow
def test_without_a_secret_there_is_no_signature() -> None:
    with WebReceiver() as receiver:
        sent(receiver, b"")
    assert notification.SIGNATURE not in receiver.got[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("statuses", [(503, 429), (500, 502)])
def test_what_may_work_later_is_sent_again(statuses: tuple[int, ...]) -> None:
    with WebReceiver(*statuses) as receiver:
        assert sent(receiver) == [0.0, 2.0, 10.0]
    assert [body for _, body in receiver.got] == [BODY] * 3


@pytest.mark.slow
@pytest.mark.parametrize(("statuses", "count"), [((404,), 1), ((302,), 1), ((500, 500, 500), 3)])
def test_it_is_given_up_without_telling_the_address(statuses: tuple[int, ...], count: int) -> None:
    with WebReceiver(*statuses) as receiver, pytest.raises(FarmError) as raised:
        sent(receiver)
    assert str(raised.value) == f"webhook 127.0.0.1: was answered with status {statuses[-1]}"
    assert len(receiver.got) == count


@pytest.mark.slow
def test_nobody_listens() -> None:
    with WebReceiver() as receiver:
        pass
    with pytest.raises(FarmError, match=r"webhook 127\.0\.0\.1: ") as raised:
        sent(receiver)
    assert "hidden" not in str(raised.value)


def test_the_secret_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(FarmError, match="cannot be read"):
        notification.read_secret(file)
    file.write_text("\n")
    with pytest.raises(FarmError, match="is empty"):
        notification.read_secret(file)
    file.write_text("secret\n")
    assert notification.read_secret(file) == SECRET
