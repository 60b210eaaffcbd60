"""Bundles: made by this farm or another one, described by bundle.json."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from farm.config import deployment, inventory
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.compare import bundle
from farm.jobs.compare.builds import plan_notes
from farm.jobs.compare.bundle import (
    ENTRIES,
    Bundle,
    UnitProbe,
    check_makes_bundles,
    make_bundle,
    make_bundle_with,
    read_bundle,
)
from farm.jobs.compare.checkout import Checkout
from farm.jobs.fleet.opening import open_unit
from farm.model import deployments
from runtime.errors import BuildError, ConfigError, FormatError, UnsupportedError
from tests.farm.model.tiny_model import write_deployment

ROOT = Path(bundle.__file__).resolve().parents[3]


pytestmark = pytest.mark.usefixtures("own_folder")


def other_farm(folder: Path, program: str, entry: str = ENTRIES[0]) -> Checkout:
    """A farm whose bundle module is this program."""
    module = folder.joinpath(*entry.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    for package in module.relative_to(folder).parents:
        (folder / package / "__init__.py").touch()
    module.write_text(program)
    return Checkout(folder, "0123456789abcdef")


def source(folder: Path) -> Deployment:
    return deployment.load(write_deployment(folder))


def unreal() -> UnitProbe:
    probe = ProbeAnswer.model_validate({"abi": "x86_64-linux", "cpu": {}, "opencl": {"error": "none here"}})
    return UnitProbe(unit="mi8", soc="sdm845", abi="host", memory=None, probe=probe)


@pytest.mark.opencl
class TestOfThisMachine:
    @pytest.fixture
    def probed(self) -> UnitProbe:
        with open_unit(inventory.HOST) as opened:
            return UnitProbe.of(opened, "buffer")

    @pytest.mark.slow
    def test_a_bundle_has_all_that_a_unit_needs(self, probed: UnitProbe, tmp_path: Path) -> None:
        path = write_deployment(tmp_path, runtime="cpu+gpu", limit_opencl_kernel_time="1")
        made = make_bundle(deployment.load(path), "tiny", "gpu", probed, tmp_path / "out")
        assert read_bundle(tmp_path / "out") == made
        assert (made.library, made.model, made.runtime, made.limit_kernel_time) == ("tinylib", "tiny", "gpu", True)
        assert [(tensor.name, tensor.shape) for tensor in made.outputs] == [("y", (1, 5))]
        assert made.settings["memory"] == "buffer" and made.fingerprint["soc"] == "host"
        assert made.source == str(ROOT)
        names = {file.name for file in (tmp_path / "out").iterdir()}
        assert names == {"bundle.json", "farmrt", "model.plan", "model.data"}
        assert os.access(tmp_path / "out/farmrt", os.X_OK)

    @pytest.mark.slow
    def test_a_process_of_its_own_makes_the_same(self, probed: UnitProbe, tmp_path: Path) -> None:
        path = write_deployment(tmp_path)
        (tmp_path / "farm").mkdir()  # the working folder is not taken for the farm
        (tmp_path / "farm/__init__.py").write_text("raise SystemExit(9)")
        here = make_bundle(deployment.load(path), "tiny", "gpu", probed, tmp_path / "here")
        there = make_bundle_with(Checkout(ROOT), deployment.load(path), "tiny", "gpu", probed, tmp_path / "there")
        assert here == there
        for name in ("model.plan", "model.data", "farmrt"):
            assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes(), name


def test_a_choice_that_fits_one_of_the_two_alone_is_noted() -> None:
    plain, chosen = (Bundle.model_validate(described(settings={"selection_file": file})) for file in ("", "kept.json"))
    assert plan_notes(plain, plain) == plan_notes(chosen, chosen) == []
    (note,) = plan_notes(chosen, plain)
    assert note.startswith("A's plan is made by a choice") and "does not fit B" in note
    (note,) = plan_notes(plain, chosen)
    assert note.startswith("B's plan")


def test_a_farm_that_fails_is_told_with_its_own_words(tmp_path: Path) -> None:
    program = "import sys; print('warning: x', file=sys.stderr); sys.exit('error: model.yml:3: no\\x1b[31mt so')"
    found = other_farm(tmp_path / "old", program)
    with pytest.raises(BuildError) as error:
        make_bundle_with(found, source(tmp_path), "tiny", "gpu", unreal(), tmp_path / "out")
    assert str(error.value) == f"{tmp_path}/old (0123456789ab): model.yml:3: no\\x1b[31mt so"


def test_a_farm_that_says_nothing(tmp_path: Path) -> None:
    found = other_farm(tmp_path / "old", "raise SystemExit(3)")
    with pytest.raises(BuildError, match="it said nothing"):
        make_bundle_with(found, source(tmp_path), "tiny", "gpu", unreal(), tmp_path / "out")


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_other_farm_is_asked_in_its_own_words(entry: str, tmp_path: Path) -> None:
    """Also one from before the rooms, whose bundle module stood elsewhere."""
    program = "import json, sys; json.dump(sys.argv[1:], open('asked.json', 'w')); sys.exit('error: enough')"
    found = other_farm(tmp_path / "old", program, entry)
    with pytest.raises(BuildError, match="enough"):
        make_bundle_with(found, source(tmp_path), "tiny", "gpu", unreal(), tmp_path / "out")
    out = tmp_path / "out"
    wanted = [
        f"{tmp_path}/tiny.yml",
        "--model",
        "tiny",
        "--runtime",
        "gpu",
        "--probe",
        f"{out}/probe.json",
        "-o",
        f"{out}",
    ]
    assert json.loads(Path("asked.json").read_text()) == wanted
    assert UnitProbe.model_validate_json((out / "probe.json").read_bytes()) == unreal()


def test_the_other_farm_gets_a_deployment_file_of_a_model_file(tmp_path: Path) -> None:
    program = "import shutil, sys; shutil.copy(sys.argv[1], 'asked.yml'); sys.exit('error: enough')"
    write_deployment(tmp_path)
    given = deployments.load(GivenModel(Path("tiny.onnx"), (("x", (2, 3, 8, 8)),)))
    with pytest.raises(BuildError, match="enough"):
        make_bundle_with(other_farm(tmp_path / "old", program), given, "tiny", "gpu", unreal(), tmp_path / "out")
    asked = deployment.load(Path("asked.yml")).models["tiny"]
    assert asked.subgraph == given.models["tiny"].subgraph
    assert Path(asked.model_file_path) == tmp_path / "tiny.onnx"


def test_a_bundle_that_was_there_before_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/bundle.json").write_text("{}")
    with pytest.raises(FormatError, match="no bundle"):
        make_bundle_with(other_farm(tmp_path / "old", ""), source(tmp_path), "tiny", "gpu", unreal(), tmp_path / "out")


def described(**more: Any) -> dict[str, Any]:
    named = {"source": "/elsewhere", "versions": {}, "library": "l", "model": "m", "runtime": "gpu", "outputs": []}
    return {"bundle_version": 1, **named, "fingerprint": {}, "settings": {}, "limit_kernel_time": False, **more}


def test_a_bundle_that_another_farm_made_than_was_asked(tmp_path: Path) -> None:
    program = f"open('out/bundle.json', 'w').write({json.dumps(described())!r})"
    with pytest.raises(FormatError, match=f"made by the farm in /elsewhere instead of {tmp_path}/old"):
        make_bundle_with(
            other_farm(tmp_path / "old", program), source(tmp_path), "tiny", "gpu", unreal(), tmp_path / "out"
        )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (json.dumps(described(bundle_version=2)), "bundle of version 2, this farm uses 1"),
        (json.dumps(described(outputs=3)), "no bundle: .*outputs"),
        ("[]", "no bundle"),
        ("{", "no bundle"),
        ("", "no bundle"),
    ],
)
def test_a_bundle_that_cannot_be_read(content: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text(content)
    with pytest.raises(FormatError, match=text) as error:
        read_bundle(tmp_path)
    assert str(error.value).isprintable()


def test_members_of_a_later_version_are_left(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text(json.dumps(described(later=1)))
    assert read_bundle(tmp_path).model == "m"


def test_a_farm_that_makes_no_bundles(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\(abc, with changes\): too old to be compared, it has no farm.jobs"):
        check_makes_bundles(Checkout(tmp_path, "abc", changed=True))


def test_what_the_unit_cannot_run_is_said(tmp_path: Path) -> None:
    path = write_deployment(tmp_path)
    with pytest.raises(UnsupportedError, match="unit 'mi8' has no OpenCL driver"):
        make_bundle(deployment.load(path), "tiny", "gpu", unreal(), tmp_path / "out")


def test_the_command_line_fails_with_one_line(tmp_path: Path, capsys: Any) -> None:
    write_deployment(tmp_path)
    Path("probe.json").write_text(unreal().model_dump_json())
    words = ["--runtime", "gpu", "--probe", "probe.json", "-o", "out"]
    assert bundle.main(["tiny.yml", "--model", "huge", *words]) == 2
    assert bundle.main(["none.yml", "--model", "tiny", *words]) == 2
    assert bundle.main(["tiny.yml", "--model", "tiny", *words[:3], "nowhere.json", "-o", "out"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[0] == "error: tiny.yml: no model 'huge'; there are: tiny"
    assert all(line.startswith("error: ") for line in lines)
