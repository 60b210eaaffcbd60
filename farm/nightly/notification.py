"""The verdict on a night as JSON: `--json` prints it, `notify_command` and `webhook` get it."""

import hashlib
import hmac
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from farm.decision.judgement import Verdict
from farm.nightly.headline import headline
from farm.nightly.night import Night, SeriesReport
from runtime.errors import FarmError

SCHEMA_VERSION = 1
NOTIFY_S = 60.0
MAX_SHOWN = 300


def verdict_members(night: Night, report: str = "") -> dict[str, Any]:
    """The JSON members of a night's verdict, for a document with a version; `report` is the path of its report."""
    changed = [series for series in night.series if series.judgement.verdict != Verdict.UNCHANGED]
    return {
        "run": night.run.id,
        "name": night.run.name,
        "started": night.run.started,
        "commit": night.run.commit,
        "baseline": night.baseline,
        "outcome": str(night.outcome),
        "headline": headline(night),
        "counts": {str(verdict): len(night.having(verdict)) for verdict in Verdict if night.having(verdict)},
        "series": [_series_members(series) for series in changed],
        "environment_changes": [_series_members(each) for each in night.having(Verdict.ENVIRONMENT_CHANGED)],
        "duets": _duet_members(night),
        "expected_false_alarms_per_week": night.control.expected_alarms_per_week if night.control else None,
        "report": report,
    }


def _duet_members(night: Night) -> dict[str, Any]:
    """How many duets were made, their pairs, and what share of the night's blocks they took."""
    return {
        "made": len(night.duets),
        "pairs": sum(len(duet.pairs) for duet in night.duets),
        "seconds": round(night.duet_s, 3),
        "share": night.duet_share,
    }


def _series_members(report: SeriesReport) -> dict[str, Any]:
    case, judgement = report.key.case, report.judgement
    return {
        "unit": case.unit,
        "model": case.model,
        "runtime": case.runtime,
        "engine": case.engine,
        "setting": case.setting,
        "metric": str(report.key.metric),
        "verdict": str(judgement.verdict),
        "ratio": judgement.ratio,
        "interval": [judgement.low, judgement.high],
        "reason": judgement.reason,
    }


def verdict_document(verdict: dict[str, Any]) -> bytes:
    """What is sent of a verdict."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **verdict}).encode()


def notify(command: Sequence[str], verdict: dict[str, Any]) -> None:
    """Runs a command with the verdict as JSON on its standard input; raises FarmError when it does not take it."""
    document = verdict_document(verdict)
    try:
        done = subprocess.run(list(command), input=document, capture_output=True, timeout=NOTIFY_S, check=False)
    except OSError as error:
        raise FarmError(f"notify_command {command[0]}: cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise FarmError(f"notify_command {command[0]}: did not end within {NOTIFY_S:g} s") from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()[:MAX_SHOWN]
        raise FarmError(
            f"notify_command {command[0]}: ended with status {done.returncode}{f': {message}' if message else ''}"
        )


SIGNATURE = "X-Farm-Signature"
EVENT = {"X-Farm-Event": "night", "Content-Type": "application/json"}
TIMEOUT_S = 10.0
PAUSES_S = (2.0, 10.0, 30.0)  # before each further attempt


def send(
    url: str,
    document: bytes,
    secret: bytes = b"",
    pauses_s: Sequence[float] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Posts a document; tries again where nobody answers, or the answer is that it may work later.

    Args:
        url: where to; a redirection is not followed.
        document: the body.
        secret: signs the body: HMAC-SHA256, in the header `X-Farm-Signature` as `sha256=HEX`; empty: no such header.
        pauses_s: how long to wait before each further attempt; by default PAUSES_S.
        sleep: waits so many seconds.

    Raises:
        FarmError: it was not taken; the address is told without what may be secret in it.
    """
    headers = {**EVENT, **({SIGNATURE: signature(document, secret)} if secret else {})}
    reason = ""
    for pause_s in (0.0, *(PAUSES_S if pauses_s is None else pauses_s)):
        sleep(pause_s)
        try:
            answer = httpx.post(url, content=document, headers=headers, timeout=TIMEOUT_S)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            continue
        if answer.is_success:
            return
        reason = f"was answered with status {answer.status_code}"
        if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR and answer.status_code != HTTPStatus.TOO_MANY_REQUESTS:
            break
    raise FarmError(f"webhook {httpx.URL(url).host}: {reason}")


def signature(document: bytes, secret: bytes) -> str:
    """What the header says of a body."""
    return f"sha256={hmac.new(secret, document, hashlib.sha256).hexdigest()}"


def read_secret(path: Path) -> bytes:
    """The secret of a file, without the white space around it; raises FarmError where there is none."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise FarmError(f"webhook_secret_file {path}: cannot be read: {error.strerror}") from None
    if not secret:
        raise FarmError(f"webhook_secret_file {path}: is empty")
    return secret
