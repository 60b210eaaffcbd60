"""Help and `import farm` answer at once: they import nothing that only work needs. benchmarks/startup.py times it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    *("adbutils", "httpx", "jinja2", "numpy", "onnx", "onnxruntime", "paramiko", "plotly", "psutil"),
    *("psycopg", "pyarrow", "pydantic", "pyopencl", "rich", "scipy", "sqlalchemy", "yaml", "ziglang"),
    *("farm.jobs", "farm.report", "farm.store", "farm.rows", "tuner", "asyncio", "sqlite3"),
}
HELP = "from farm import cli; cli.call({arguments!r})"
PROGRAM = "import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The modules that a new process has after that code."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(code=code)], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "tune --help", "nightly --help"])
def test_help_imports_nothing_that_only_work_needs(command: str) -> None:
    assert not imported(HELP.format(arguments=command.split())) & HEAVY


def test_importing_farm_imports_none_of_its_parts() -> None:
    found = imported("import farm")
    assert not found & HEAVY
    assert not {name for name in found if name.startswith("farm.")}
