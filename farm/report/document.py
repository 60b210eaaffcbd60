"""A night as JSON: every judgement, and what of the rows is no sample. `schema_version` counts incompatible changes."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from farm.nightly.headline import headline
from farm.nightly.night import CaseReport, DeviceReport, Night, SeriesReport

SCHEMA_VERSION = 1
_SAMPLES: Mapping[str, bool | set[str]] = {"blocks": True, "ops": True, "duet": {"pairs"}}


def night_json(night: Night) -> str:
    """The document, a line for each member and device; names stand in it with escapes for all that is not ASCII."""
    members = {
        "schema_version": SCHEMA_VERSION,
        "outcome": str(night.outcome),
        "headline": headline(night),
        "run": night.run,
        "baseline": night.baseline,
        "control": night.control,
    }
    lines = [f" {_json(name)}: {_json(member)},\n" for name, member in members.items()]
    devices = ",\n".join(f"  {_json(_device(device))}" for device in night.devices)
    return f'{{\n{"".join(lines)} "devices": [\n{devices}\n ]\n}}\n'


def _json(value: Any) -> str:
    """With null for NaN and infinity, which JSON does not have."""
    try:
        return json.dumps(value, default=_members, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(json.loads(json.dumps(value, default=_members))), allow_nan=False)


def _members(value: Any) -> dict[str, Any]:
    """Of a dataclass; as `dataclasses.asdict`, which copies all that is in them."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _device(device: DeviceReport) -> dict[str, Any]:
    return {
        "unit": device.unit,
        "soc": device.soc,
        "device_model": device.device_model,
        "fingerprint": dict(device.fingerprint),
        "cases": [_case(case) for case in device.cases],
    }


def _case(case: CaseReport) -> dict[str, Any]:
    return {
        **_members(case.case),
        "row": case.row.model_dump(mode="json", exclude=_SAMPLES) if case.row else None,
        "series": [_series(report) for report in case.series],
    }


def _series(report: SeriesReport) -> dict[str, Any]:
    return {
        "metric": str(report.key.metric),
        "unit": report.key.metric.info.unit,
        "nights": len(report.points),
        "last_point": report.last,
        "judgement": report.judgement,
    }


def _finite(value: Any) -> Any:
    """The same with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {str(name): _finite(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
