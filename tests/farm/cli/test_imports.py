"""Help and `import farm` answer at once: they import nothing that only work needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


LIGHT = {"pydantic", "yaml", "rich", "click", "psutil"}  # what files and tables are read and shown with


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("run nothere.onnx", set()),
        ("convert empty.onnx", set()),
        ("benchmark --config=nothere.yml", set()),
        ("devices", {*LIGHT, "farm.rows"}),
    ],
    ids=["run", "empty", "config", "devices"],
)
def test_what_needs_no_job_imports_none(command: str, allowed: set[str], tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    code = f"import os; os.chdir({str(tmp_path)!r}); {HELP.format(arguments=command.split())}"
    assert not imported(code) & HEAVY - allowed


@pytest.mark.slow
def test_a_look_at_the_machine_imports_no_job(tmp_path: Path) -> None:
    code = f"import os; os.chdir({str(tmp_path)!r}); {HELP.format(arguments=['doctor', '--json'])}"
    assert not imported(code) & HEAVY - LIGHT - {"farm.rows"}


# What a job needs only for a model from elsewhere, for rows that are kept, for a page, or where something is decided.
SELDOM = {
    *(
        "asyncio",
        "distributed",
        "httpx",
        "jinja2",
        "onnxruntime",
        "paramiko",
        "plotly",
        "scipy",
        "sqlalchemy",
        "sqlite3",
    ),
    *("runtime.importers.caffe", "runtime.zoo"),
}


@pytest.mark.slow
@pytest.mark.parametrize("job", ["benchmark", "compare", "opbench", "run", "tune", "unit_night"])
def test_a_job_of_a_host_imports_nothing_that_few_need(job: str) -> None:
    assert not imported(f"import farm.cli.{job}, farm.jobs.loading") & SELDOM


@pytest.mark.slow
def test_a_scheduler_imports_nothing_of_units() -> None:
    assert not imported("import farm.cluster.scheduler") & {"farm.rows", "farm.transport", "pydantic", "scipy"}


def test_importing_farm_imports_none_of_its_parts() -> None:
    found = imported("import farm")
    assert not found & HEAVY
    assert not {name for name in found if name.startswith("farm.")}
