"""Options and help of `farm doctor`."""

from __future__ import annotations

from typing import Any

import click


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(**given: Any) -> int:
    """Say what this machine has, what it lacks, and what to do about it.

    Exit status 1 when something is missing without which nothing runs.
    """
    from farm.cli import doctor

    return doctor.doctor(**given)
