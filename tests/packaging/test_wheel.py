"""The wheel, installed into an empty environment: every command of a first day works from an empty folder."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import farm
from farm.cli import COMMANDS
from tests import adb_programs, opencl
from tests.farm.model.tiny_model import write_deployment

ROOT = Path(__file__).parents[2]
SOURCES = ("farm", "runtime", "tuner", "pyproject.toml", "README.md", "MANIFEST.in")
NIGHT = "models: [tiny.yml]\nunits: [{device: host}]\nrepeats: 2\nrounds: 2\nmost_reruns: 0\nrest_seconds: 0\n"
DEADLINE_S = 600.0  # of one command, on a machine where others work too
PHONE_PORT = "5701"  # in the documents

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, as building leaves files among them."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "-w", folder]
    subprocess.run([*pip, folder / "source"], check=True, timeout=DEADLINE_S)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; its dependencies are those of this one, without our sources."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=DEADLINE_S)
    python = folder / "bin/python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", wheel], check=True, timeout=DEADLINE_S, env=environment(folder))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # its own .pth files do not count
    return folder / "bin"


@pytest.fixture
def small(own_folder: Path) -> Path:
    """A folder with a small network and its deployment file alone."""
    write_deployment(own_folder)
    return own_folder


def environment(folder: Path) -> dict[str, str]:
    """Without what leads to the sources; farm's programs find each other."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def call(programs: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Calls the installed `farm` in the working folder."""
    command = [programs / "farm", *arguments]
    done = subprocess.run(command, env=environment(programs), capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done


def test_it_holds_what_running_needs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"farm", "runtime", "tuner", f"farm-{farm.__version__}.dist-info"}
    for folder in ("farm", "runtime", "tuner"):
        here = {path for path in (ROOT / folder).rglob("*") if path.is_file() and not path.name.startswith(".")}
        assert {str(path.relative_to(ROOT)) for path in here if "__pycache__" not in path.parts} <= set(names)


def test_it_runs_from_its_own_place(programs: Path, own_folder: Path) -> None:
    code = "import farm, runtime, tuner; print(farm.__file__, farm.__version__, [unit.name for unit in farm.units()])"
    command = [programs / "python", "-c", code]
    done = subprocess.run(command, env=environment(programs), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(programs.parent)) and done.stdout.endswith(f" {farm.__version__} ['host']\n")
    assert call(programs, "--version").stdout == f"farm {farm.__version__}\n"


def test_help_names_no_file_that_is_not_there(programs: Path, own_folder: Path) -> None:
    code = "from farm import cli; print([cli.call([name, '--help']) for name in cli.COMMANDS])"
    done = subprocess.run([programs / "python", "-c", code], env=environment(programs), capture_output=True, text=True)
    assert "docs/" not in done.stdout and done.stdout.endswith(f"{[0] * len(COMMANDS)}\n"), done.stderr


def test_zoo(programs: Path, own_folder: Path) -> None:
    assert "mobilenet_v1" in call(programs, "zoo", "list").stdout
    call(programs, "zoo", "deployment", "squeezenet_v11", "-o", "mine.yml")
    call(programs, "zoo", "write", "mobilenet_v1", "--width", "0.25", "--size", "32", "-o", "net.onnx")
    assert Path("net.onnx").stat().st_size > 100_000
    planned = json.loads(call(programs, "forecast", "mine.yml", "--json").stdout)
    assert planned["rows"][0]["status"] == "ok"


def test_build(programs: Path, own_folder: Path) -> None:
    (built,) = json.loads(call(programs, "build", "--json").stdout)["built"]
    assert Path(built["program"]).is_relative_to(own_folder)
    assert os.access(built["program"], os.X_OK)


@pytest.mark.opencl
def test_run_tune_nightly_and_report(programs: Path, small: Path) -> None:
    assert "tiny" in call(programs, "run", "tiny.yml", "--validate", "--round", "2").stdout
    call(programs, "tune", "tiny.yml", "--soc", "host", "--budget", "10")
    (small / "night.yml").write_text(NIGHT)
    call(programs, "nightly", "night.yml")
    call(programs, "report", "-o", "pages")
    assert (small / "pages/index.html").is_file() and (small / "reports/night/assets").is_dir()


@pytest.mark.opencl
def test_the_lines_of_the_page_on_embedding(programs: Path, own_folder: Path) -> None:
    """They are run as they stand there; `farm` is the wheel's, `cc` any C compiler."""
    lines = [line.strip() for line in (ROOT / "docs/embedding.md").read_text().splitlines() if line.startswith("    ")]
    assert len(lines) > 4
    if not shutil.which("cc"):
        (own_folder / "cc").write_text(f'#!/bin/sh\nexec {sys.executable} -m ziglang cc "$@"\n')
        (own_folder / "cc").chmod(0o755)
    known = environment(programs)
    known |= {"PATH": f"{known['PATH']}:{own_folder}", "FARM_OPENCL": str(opencl.WORKING[0].path)}
    words = ["sh", "-ec", "\n".join(lines)]
    done = subprocess.run(words, env=known, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    first, *classes = done.stdout.splitlines()[-6:]
    assert "tuned parameters" in first and len(classes) == 5
    assert all(0 <= float(line.split()[1]) <= 1 for line in classes)


def first_hour() -> list[str]:
    """The commands of docs/first-hour.md, but that which installs."""
    lines = [line.strip() for line in (ROOT / "docs/first-hour.md").read_text().splitlines() if line.startswith("    ")]
    install, *others = lines
    assert install.startswith("pip install ") and len(lines) <= 6
    return others


def open_network() -> onnx.ModelProto:
    """A convolution whose input has the name and size of docs/first-hour.md; its batch is open."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["input", "weights"], ["features"], strides=[4, 4]),
        helper.make_node("Relu", ["features"], ["output"]),
    ]
    described = helper.make_tensor_value_info("input", kind, ["N", 3, 64, 64])
    result = helper.make_tensor_value_info("output", kind, None)
    graph = helper.make_graph(nodes, "open", [described], [result], [onnx.numpy_helper.from_array(weights, "weights")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.opencl
def test_the_first_hour(programs: Path, own_folder: Path, adb_port: int) -> None:
    """Its commands are run as they stand there, tuning for seconds: both units are right, profiled and tuned."""
    onnx.save(open_network(), "my_net.onnx")
    known = environment(programs) | {"COLUMNS": "80", "ANDROID_ADB_SERVER_PORT": str(adb_port)}
    known["PATH"] = f"{known['PATH']}:{adb_programs.path_of(adb_programs.ADBUTILS).parent}"  # type: ignore[union-attr]
    emulate, *others = first_hour()
    words = shlex.split(emulate.removesuffix("&").replace(PHONE_PORT, "0"))
    with subprocess.Popen(words, env=known, stdout=subprocess.PIPE, text=True) as phone:
        try:
            assert phone.stdout
            port = phone.stdout.readline().rpartition(":")[2].strip()
            for line in others:
                words = shlex.split(line.replace(PHONE_PORT, port))
                words += ["--budget", "3"] * line.startswith("farm tune")
                done = subprocess.run(words, env=known, capture_output=True, text=True, timeout=DEADLINE_S)
                assert done.returncode == 0, (line, done.stdout, done.stderr)
        finally:
            phone.kill()
    call(programs, "store", "export", "rows.jsonl")
    lines = [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()]
    rows = {(row["job"], row["soc"], row["status"]) for row in (line.get("row") for line in lines) if row}
    assert rows == {(job, soc, "ok") for job in ("run", "benchmark", "tune") for soc in ("host", "sdm845")}


@pytest.mark.opencl
def test_demo(programs: Path, own_folder: Path) -> None:
    found = json.loads(call(programs, "demo", "--quick", "--json").stdout)
    assert {row["job"] for row in found["rows"]} == {"run", "benchmark", "tune"}
    assert all(Path(path).is_file() for path in found["artifacts"]) and found["nights"] is None
    assert "squeezenet" in Path(found["report"]).read_text()


@pytest.fixture
def emulated(programs: Path, own_folder: Path) -> Iterator[subprocess.Popen[str]]:
    """`farm emulate phone`, which runs until it is told to end."""
    command = [programs / "farm", "emulate", "phone", "--port", "0", "--json"]
    with subprocess.Popen(command, env=environment(programs), stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_emulate(emulated: subprocess.Popen[str]) -> None:
    assert emulated.stdout
    assert json.loads(emulated.stdout.readline())["soc"] == "sdm845"
    emulated.send_signal(signal.SIGTERM)
    assert emulated.wait(DEADLINE_S) == 0


def test_comparing_commits_says_that_there_is_no_repository(programs: Path, small: Path) -> None:
    done = call(programs, "compare", "main", "branch", "tiny.yml", status=2)
    assert "which is no git repository" in done.stderr and "name a folder" in done.stderr
    assert done.stderr.count("\n") == 1
