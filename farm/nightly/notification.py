"""The verdict on a night as JSON: `--json` prints it, `notify_command` and `webhook` get it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

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
