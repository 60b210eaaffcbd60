"""Workers whose units are emulated by waiting: everything of a cluster is real but what a job does on its unit."""

# A job's arguments are `wait SECONDS` or `wait FILE`, until there is one; its document says which unit waited.
PROGRAM = """
import json, os, time
from pathlib import Path
from farm.cluster import host_tasks
from farm.config.inventory import Unit
from farm.units import lookup, survey
from farm.units.survey import UnitEntry, UnitReport, UnitState

units = [Unit(name, "adb", "sdm845", "", ("arm64-v8a",), serial=name) for name in os.environ["UNITS"].split()]

def wait(arguments, folder, is_cancelled, tell):
    begun_s, what = time.monotonic(), arguments[1]
    is_over = Path(what).exists if "/" in what else lambda: time.monotonic() - begun_s > float(what)
    while not is_over() and not is_cancelled():
        time.sleep(0.01)
    return {"error": None, "unit": arguments[arguments.index("--device") + 1]}

host_tasks.run_command = wait
lookup.present = lambda: [UnitEntry(unit) for unit in units]
survey.identify = survey.inspect = lambda entry, connect: UnitReport(entry.unit, UnitState.READY)
from farm.cli import main
main()
"""
