"""Executes every launch of one kernel on the driver that the environment names, here Oclgrind, and prints a report.

    python -m tests.oclgrind.worker MEMORY KERNEL PART PARTS [VARIANT OLD NEW]

Of PARTS of the launches it takes the one with the number PART, from 0. The last three plant a fault: only that variant
is executed, and in its source the text NEW stands in the place of OLD.
"""

import json
import os
import sys
from pathlib import Path

import pyopencl as cl

from runtime.kernels import source
from runtime.kernels.spec import Kernel
from tests.oclgrind.launches import Launch, find, launches
from tests.oclgrind.simulator import findings
from tests.runtime import buffer_launch, image_launch


def failures(kernel: Kernel, launch: Launch, log: Path) -> list[str]:
    """What a launch did wrong: what the simulator found during it, and a wrong result."""
    before = log.stat().st_size
    try:
        launch.execute()
        wrong = []
    except (AssertionError, cl.Error) as error:
        wrong = [f"wrong: {str(error).strip().splitlines()[0]}"]
    return findings(log.read_text()[before:], kernel) + wrong


def plant(kernel: Kernel, old: str, new: str) -> None:
    """Changes the source of a kernel that is launched from now on."""
    faulty = source.program_source(kernel).replace(old, new)
    assert faulty != source.program_source(kernel), f"the source of {kernel.name} has no {old!r}"
    for module in (buffer_launch, image_launch):
        module.program_source = lambda _: faulty


def main(memory: str, name: str, part: str, parts: str, variant: str = "", *fault: str) -> None:
    """Prints the number of launches and what failed, as JSON."""
    kernel, log = find(memory, name), Path(os.environ["OCLGRIND_LOG"])
    log.touch()
    if fault:
        plant(kernel, *fault)
    wanted = [launch for launch in launches(kernel) if variant in ("", launch.variant.name)][int(part) :: int(parts)]
    failed = []
    for launch in wanted:
        where = f"{name} ({memory}), {launch.variant.name}, {launch.label}"
        print(where, file=sys.stderr)  # the last line tells where a process ended that the simulator took down
        failed += [f"{where}: {what}" for what in failures(kernel, launch, log)]
    print(json.dumps({"launches": len(wanted), "failures": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
