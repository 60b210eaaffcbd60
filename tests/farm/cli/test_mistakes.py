"""What is typed by mistake, and the one line that comes: in process, before anything is compiled or run."""

import subprocess
from pathlib import Path

import pytest

from farm import cli
from farm.units import lookup
from tests.farm.model.tiny_model import deployment_text, tiny_model, write_deployment

START = "; `farm run zoo://squeezenet_v11` needs none, `farm zoo deployment NAME` writes one to start from"
HELP = " (see farm {} --help)"
RUN = HELP.format("run")

# Command line -> the line after `error: `; `...` stands for anything.
TYPED = {
    # Files
    "run": f"Missing argument 'MODEL.yml'.{RUN}",
    "run nothere.onnx": f"nothere.onnx: no such file{START}",
    "run tiny.ymll": "tiny.ymll: no such file, did you mean 'tiny.yml'?",
    "run tiny.yaml": "tiny.yaml: no such file, did you mean 'tiny.yml'?",
    "benchmark models/net.yml": "models/net.yml: no such file; there is no folder models",
    "run folder": "folder: a folder, but not that of a SavedModel, which has a saved_model.pb; it holds net.yml",
    "run empty.yml": "empty.yml:1: the file is empty",
    "run picture.png": "picture.png: ...",
    "run zoo://squeeznet": "zoo://squeeznet: no such sample, did you mean 'squeezenet_v11'?",
    "run tiny.yml other.yml": f"run takes one deployment file, not other.yml too: call it once for each, or write "
    f"their models into one file{RUN}",
    "convert --config=tiny.yml other.yml": "convert takes one deployment file, not other.yml too: ...",
    "run --config=tinny.yml": "tinny.yml: no such file, did you mean 'tiny.yml'?",
    "run tiny.yml --device_yml=gone.yml": f"--device_yml: File 'gone.yml' does not exist.{RUN}",
    "run tiny.yml --tuned gone.bin": "--tuned gone.bin: no such file; `--tuned none` runs without",
    "run tiny.yml --input x=gone.npy": f"--input: gone.npy does not exist{RUN}",
    "nightly tiny.ym": "...tiny.ym...",
    # Commands and options
    "rum tiny.yml": "unknown command 'rum', did you mean 'run'? (see farm --help)",
    "run tiny.yml --validat": "No such option '--validat'. Did you mean '--validate' or ...",
    "run tiny.yml --rounds 3": "No such option '--rounds'. Did you mean '--round' or ...",
    "devices chekc host": f"No such command 'chekc'. Did you mean 'check'?{HELP.format('devices')}",
    "zoo write mobilnet_v1 -o m.onnx": "...did you mean 'mobilenet_v1'?...",
    # Numbers and words
    "run tiny.yml --num_threads abc": f"--num_threads: a whole number from 1 to 1024 is expected, not 'abc'{RUN}",
    "run tiny.yml --num_threads 0": f"--num_threads: a whole number from 1 to 1024 is expected, not '0'{RUN}",
    "run tiny.yml --round 1e3": f"--round: a whole number from 1 to 100000 is expected, not '1e3'{RUN}",
    "run tiny.yml --wait -1": f"--wait: a number of at least 0 is expected, not '-1'{RUN}",
    "run tiny.yml --round-limit 0": f"--round-limit: a number above 0 and up to 1000000 is expected, not '0'{RUN}",
    "run tiny.yml --cpu_affinity_policy big": f"--cpu_affinity_policy: 'big' is no affinity; write none, big_only, "
    f"little_only, or a list of CPUs such as 4-7 or 0,2{RUN}",
    "run tiny.yml --cpu_affinity_policy 5": f"--cpu_affinity_policy: 5 is none of MACE's policies (0 none, 1 big_only, "
    f"2 little_only); write 5-5 for CPU 5{RUN}",
    "run tiny.yml --gpu_perf_hint max": "--gpu_perf_hint: 'max' is not one of 'default', 'low', 'normal', 'high'. (...",
    "run tiny.yml --memory images": f"--memory: 'images' is not one of 'buffer', 'image'.{RUN}",
    "run tiny.yml --vlog_level 9": f"--vlog_level: a whole number from 0 to 4 is expected, not '9'{RUN}",
    "emulate phone --port 99999": "--port: a whole number from 0 to 65535 is expected, not '99999'...",
    # Units
    "run tiny.yml --device mi8": "--device mi8: no such unit; there are: host (SoC host, ABI host, ready); ...",
    "run tiny.yml --device hots": "--device hots: no such unit, did you mean 'host'?; there are: ...",
    "forecast tiny.yml --soc sdm8455": "--soc sdm8455: no such SoC is known, did you mean 'sdm845'?",
    "run phone.yml": "phone.yml: no unit is of its target_abis and target_socs (arm64-v8a); there are: host (...",
    "devices check pixel": "--device pixel: no such unit; there are: ...",
    "doctor --device host --all": "--all is about the drivers of this machine, --device about a unit; ...",
    "run tiny.yml --opencl itnel --device nobody": "--device nobody: no such unit; ...",
    # The contents of deployment files
    "convert key.yml": "key.yml:...: models.tiny.winogard: unknown key, did you mean 'winograd'?",
    "convert threads.yml": "threads.yml:...: models.tiny.num_threads: 'abc' is not accepted: ...",
    "convert runtime.yml": "runtime.yml:...: models.tiny.runtime: 'dsp' is not supported yet by farmrt, which has ...",
    "convert platform.yml": "platform.yml:...: models.tiny.platform: 'onxx' is no platform that is supported, did ...",
    "convert socs.yml": "socs.yml:...: target_socs: write all, random or names of SoCs, not both",
    "convert policy.yml": "policy.yml:...: models.tiny.cpu_affinity_policy: 7 is none of MACE's policies (...",
    "convert threshold.yml": "threshold.yml:...: models.tiny.validation_threshold: 'GPUU' is no runtime, did you ...",
    # Model files
    "convert open.onnx": "open.onnx: input 'x' is ...: say its shape with --shape x=1,...",
    "convert open.onnx --shape y=1,3,8,8": "open.onnx: --shape y...",
    "convert open.onnx --shape x=1,3,8": "open.onnx: ...x...1,3,8...",
    "convert open.onnx --shape x=1,3,8,a": "--shape: 'x=1,3,8,a': write INPUT=SIZES with sizes of at least 1, ...",
    "convert tiny.yml --shape x=1,3,8,8": "tiny.yml: --shape is for model files; this deployment file says it ...",
    "convert half.onnx": "half.onnx: ...",
    "init tiny.yml": "tiny.yml: no model file; a deployment file is run as it is: `farm run tiny.yml`",
}
FILES = {
    "empty.yml": "",
    "other.yml": deployment_text(),
    "folder/net.yml": "",
    "picture.png": "\x89PNG",
    "phone.yml": deployment_text().replace("[host]", "[arm64-v8a]"),
    "key.yml": deployment_text(winogard="2"),
    "threads.yml": deployment_text(num_threads="abc"),
    "runtime.yml": deployment_text(runtime="dsp"),
    "platform.yml": deployment_text().replace("platform: onnx", "platform: onxx"),
    "socs.yml": f"target_socs: [random, sdm845]\n{deployment_text()}",
    "policy.yml": deployment_text(cpu_affinity_policy="7"),
    "threshold.yml": deployment_text(validation_threshold="{GPUU: 0.9}"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good deployment file, and files with mistakes."""
    there = tmp_path_factory.mktemp("mistakes")
    write_deployment(there)
    content = (there / "tiny.onnx").read_bytes()
    (there / "open.onnx").write_bytes(tiny_model(batch="frames").SerializeToString())
    (there / "half.onnx").write_bytes(content[: len(content) // 2])
    for name, text in FILES.items():
        (there / name).parent.mkdir(exist_ok=True)
        (there / name).write_text(text)
    return there


@pytest.fixture(autouse=True)
def nothing_is_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are called there; no adb server is asked, and no program is started: compilers and farmrt among them."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(lookup, "adb_phones", lambda server: [])
    monkeypatch.setattr(subprocess, "Popen", _refused)


def _refused(*arguments: object, **_: object) -> None:
    raise AssertionError(f"a mistake was found too late: {arguments}")


def fits(pattern: str, line: str) -> bool:
    """Whether a line is as the table says; `...` stands for anything."""
    begin, *rest = pattern.split("...")
    if not rest:
        return line == pattern
    at = len(begin)
    if not line.startswith(begin):
        return False
    for part in rest[:-1]:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return line[at:].endswith(rest[-1])


@pytest.mark.parametrize("typed", TYPED)
def test_a_mistake_is_one_line(typed: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    status = cli.call(typed.split())
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert fits(f"error: {TYPED[typed]}", line), line
    assert (status, out) == (3 if "no such unit" in line or "no unit" in line or "no such SoC" in line else 2, "")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before
