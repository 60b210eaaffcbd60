"""The recipes of examples/recipes: their form is checked, and what their CI files call is run on an emulated phone."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml

from farm import cli
from tests.conftest import require
from tests.farm.emulated_units import EmulatedUnits

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
SERVICES = sorted(RECIPES.glob("systemd/*.service"))
INSTALLS = re.compile(r"venv|pip install|GITHUB_PATH|export PATH")
REGISTRIES = re.compile(r"pypi|pythonhosted|index-url|npmjs", re.IGNORECASE)
NIGHT = "models: tiny.yml\nunits: [{all: yes}]\nruntimes: gpu\nrepeats: 2\nrounds: 3\nmost_reruns: 0\n"
PROGRAM = """#!/bin/sh
exec {python} -P -c 'from farm.cli import main; main()' "$@"
"""
INSTRUCTIONS = ("FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "ENTRYPOINT", "CMD")


def workflow() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((RECIPES / "github-actions.yml").read_text(), yaml.BaseLoader)
    return found


def pipeline() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((RECIPES / "gitlab-ci.yml").read_text())
    return found


def workflow_lines() -> list[str]:
    steps = workflow()["jobs"]["night"]["steps"]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def pipeline_lines() -> list[str]:
    return [*pipeline()["farm"]["before_script"], *pipeline()["farm"]["script"]]


def docker_instructions() -> list[tuple[str, str]]:
    """Word and rest of each instruction, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (RECIPES / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def service(path: Path) -> Mapping[str, Mapping[str, str]]:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(path)
    return found


def farm_commands() -> Iterator[tuple[str, list[str]]]:
    """Each `farm` command line of the recipes, and the file that it stands in."""
    for name, lines in (("github-actions.yml", workflow_lines()), ("gitlab-ci.yml", pipeline_lines())):
        yield from ((name, shlex.split(line)[1:]) for line in lines if line.startswith("farm "))
    for path in SERVICES:
        yield path.name, shlex.split(service(path)["Service"]["ExecStart"])[1:]
    for line in (RECIPES / "README.md").read_text().splitlines():
        if line.startswith("    docker run"):
            yield "README.md", shlex.split(line.partition(" farm ")[2])
    yield "Dockerfile", json.loads(dict(docker_instructions())["CMD"])


@pytest.mark.parametrize(("file", "words"), [*farm_commands()], ids=str)
def test_every_command_is_one_that_there_is(file: str, words: list[str]) -> None:
    """Its name and options are declared; values are not looked at."""
    command: click.Command | None = cli.farm
    assert isinstance(command, click.Group)
    command = command.get_command(click.Context(command), words[0])
    assert command, words
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("lines", [workflow_lines(), pipeline_lines()], ids=["github", "gitlab"])
def test_what_the_ci_runs_leaves_a_report(emulated: EmulatedUnits, lines: list[str]) -> None:
    emulated.phone()
    (emulated.folder / "nightly.yml").write_text(NIGHT)
    done = run(emulated.folder, [line for line in lines if not INSTALLS.search(line)])
    assert done.returncode == 0, done.stdout + done.stderr
    report = emulated.folder / "reports" / "night"
    (suite,) = ElementTree.parse(report / "junit.xml").iter("testsuite")
    assert int(suite.attrib["tests"]) > 0 and (report / "index.html").is_file()
    summary = emulated.folder / "summary.md"
    assert not summary.exists() or summary.read_text() == (report / "summary.md").read_text()


@pytest.mark.slow
def test_without_a_unit_the_ci_fails_by_exit_status(emulated: EmulatedUnits) -> None:
    (emulated.folder / "nightly.yml").write_text(NIGHT.replace("{all: yes}", "{soc: sm8550}"))
    (emulated.folder / "devices.yml").write_text("adb: {discover: listed}\ndevices: {host: {transport: local}}\n")
    status = run(emulated.folder, pipeline()["farm"]["script"]).returncode
    assert [status] == pipeline()["farm"]["allow_failure"]["exit_codes"]


def run(folder: Path, lines: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs shell lines as a CI does, with `farm` of this tree."""
    program = folder / "bin" / "farm"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)


def test_the_workflow_is_one() -> None:
    found = workflow()
    assert set(found) <= {"name", "on", "permissions", "concurrency", "jobs"} and set(found["on"]) == {
        "schedule",
        "workflow_dispatch",
    }
    for job in found["jobs"].values():
        assert {"runs-on", "steps"} <= set(job) <= {"runs-on", "steps", "timeout-minutes"}
        for step in job["steps"]:
            assert set(step) <= {"name", "if", "run", "uses", "with"} and ("run" in step) != ("uses" in step)
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/x@v1"))
    kept = next(step for step in found["jobs"]["night"]["steps"] if "upload-artifact" in step.get("uses", ""))
    assert kept["if"] == "always()" and kept["with"]["path"] in " ".join(workflow_lines())


def test_the_pipeline_is_one() -> None:
    job = pipeline()["farm"]
    known = {"stage", "tags", "timeout", "resource_group", "before_script", "script", "allow_failure", "artifacts"}
    assert set(job) == known and job["artifacts"]["when"] == "always"
    (folder,) = job["artifacts"]["paths"]
    assert job["artifacts"]["reports"]["junit"] == f"{folder}/junit.xml" and folder in " ".join(job["script"])


def test_the_dockerfile_s_instructions() -> None:
    found = docker_instructions()
    assert {word for word, _ in found} == set(INSTRUCTIONS) and found[0][0] == "FROM"
    words = [word for word, _ in found]
    assert words.index("USER") > max(place for place, word in enumerate(words) if word == "RUN"), "nothing runs as root"
    assert json.loads(dict(found)["ENTRYPOINT"]) == ["farm"]
    extras = re.findall(r"source\[([a-z,]+)\]", str(found))
    assert extras == ["cluster,serve"]
    for word, line in found:
        if word == "RUN":
            assert subprocess.run(["sh", "-n", "-c", line]).returncode == 0


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_services_are_verified(path: Path, tmp_path: Path) -> None:
    require("systemd-analyze", "" if shutil.which("systemd-analyze") else "systemd-analyze is not installed")
    program = tmp_path / "farm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace("/srv/farm/.venv/bin/farm", str(program)))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
    assert done.returncode == 0 and path.name not in done.stderr, done.stderr
    assert set(service(path)) == {"DEFAULT", "Unit", "Service", "Install"}


def test_every_variable_of_a_service_has_a_value() -> None:
    used = {name for path in SERVICES for name in re.findall(r"\$\{(\w+)\}", path.read_text())}
    given = re.findall(r"^(\w+)=", (RECIPES / "systemd" / "farm.default").read_text(), re.MULTILINE)
    assert used == set(given)


def test_the_devcontainer() -> None:
    found = json.loads((RECIPES / "devcontainer" / "devcontainer.json").read_text())
    assert set(found) == {"name", "image", "postCreateCommand", "runArgs", "forwardPorts", "customizations"}
    assert subprocess.run(["sh", "-n", "-c", found["postCreateCommand"]]).returncode == 0
    assert "make setup" in found["postCreateCommand"]


def test_no_recipe_names_a_package_registry() -> None:
    files = [path for path in RECIPES.rglob("*") if path.is_file()]
    assert len(files) == 9
    assert not {path.name for path in files if REGISTRIES.search(path.read_text())}
