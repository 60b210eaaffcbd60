"""Units as a table and as JSON."""

from collections.abc import Sequence
from typing import Any

from farm import safe_text
from farm.tables.table import Table
from farm.units.survey import UnitReport, UnitState

COLUMNS = ("Unit", "Transport", "Model", "SoC", "ABI", "GPU (driver)", "System", "°C", "Battery", "State")
LEFT = frozenset(COLUMNS) - {"°C", "Battery"}
GIVES_WAY = ("GPU (driver)", "System", "ABI", "Model", "Transport", "Battery", "°C")
# What acceptance says beyond a date; that it failed is why the unit is in quarantine.
ACCEPTED = {"": "", "failed": "", "updated": "updated since `farm accept`, whose findings do not count"}
MAX_GPU = 40
MAX_MODEL = 30


def devices_table(reports: Sequence[UnitReport]) -> Table:
    """A line for each unit; where there is little room, its name, SoC, state and reason are what stays."""
    return Table("", COLUMNS, [_cells(report) for report in reports], LEFT, GIVES_WAY)


def devices_json(reports: Sequence[UnitReport]) -> dict[str, Any]:
    """All that is known of each unit; None or empty where it does not tell."""
    return {"devices": [device_members(report) for report in reports]}


def _cells(report: UnitReport) -> list[str]:
    unit, device = report.unit, report.device
    return [
        unit.name,
        unit.transport,
        safe_text.word(unit.model if unit.model != unit.name else "-", MAX_MODEL),
        unit.soc,
        ",".join(unit.abis) or "-",
        gpu_text(report) or "-",
        report.facts.os or "-",
        "-" if device.temperature_c is None else f"{device.temperature_c:.1f}",
        _battery(report),
        state_text(report),
    ]


def state_text(report: UnitReport) -> str:
    """`unauthorized: what to do`."""
    reason = report.reason or report.driver.error * (report.state == UnitState.READY)
    also = f"also listed as {', '.join(report.unit.aliases)}" if report.unit.aliases else ""
    told = "; ".join(filter(None, (reason, ACCEPTED.get(report.accepted, f"accepted {report.accepted}"), also)))
    if not told or told.startswith(report.state):  # `reserved by alice until ...` says it already
        return safe_text.one_line(told or str(report.state))
    return safe_text.one_line(f"{report.state}: {told}")


def gpu_text(report: UnitReport) -> str:
    """`Mali-G710 (v1.r38p1)`; empty where neither the driver nor the system tells."""
    gpu = safe_text.word(report.driver.gpu or report.facts.gpu, MAX_GPU)
    driver = safe_text.word(report.driver.driver, MAX_GPU)
    return f"{gpu} ({driver})" if gpu and driver else gpu


def _battery(report: UnitReport) -> str:
    percent, charging = report.device.battery_percent, report.device.charging
    return "-" if percent is None else f"{percent} %{' +' if charging else ''}"


def device_members(report: UnitReport) -> dict[str, Any]:
    """All that is known of a unit, as JSON members."""
    unit, device = report.unit, report.device
    return {
        "name": unit.name,
        "listed": report.listed,
        "transport": unit.transport,
        "serial": unit.serial,
        "aliases": list(unit.aliases),
        "address": unit.address,
        "model": unit.model,
        "soc": unit.soc,
        "abis": list(unit.abis),
        "tags": list(unit.tags),
        "gpu": report.driver.gpu or report.facts.gpu,
        "driver": report.driver.driver,
        "opencl": report.driver.opencl,
        "os": report.facts.os,
        "state": str(report.state),
        "reason": report.reason or report.driver.error,
        "accepted": report.accepted,
        "held_by": report.holder.line if report.holder else "",
        "held_until": report.holder.until.isoformat(timespec="seconds") if report.holder else None,
        "temperature_c": device.temperature_c,
        "battery_percent": device.battery_percent,
        "charging": device.charging,
        "thermal_status": device.thermal_status,
        "free_bytes": device.free_bytes,
    }
