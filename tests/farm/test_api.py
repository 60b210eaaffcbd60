"""The examples of docs/python.md, and what `import farm` promises."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import farm
from farm import api
from tests.farm.model.tiny_model import write_deployment

PAGE = Path(__file__).parents[2] / "docs/python.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
NIGHT = "models: [net.yml]\nunits: [{device: host}]\nrepeats: 2\nrounds: 2\nmost_reruns: 0\nrest_seconds: 0\n"


@pytest.fixture
def folder(own_folder: Path) -> Path:
    """The folder of the examples."""
    write_deployment(own_folder).rename(own_folder / "net.yml")
    (own_folder / "night.yml").write_text(NIGHT)
    return own_folder


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("example", EXAMPLES, ids=[text.split("farm.", 1)[1].split("(")[0] for text in EXAMPLES])
def test_examples_of_the_page_run(example: str, folder: Path) -> None:
    program = folder / "example.py"
    program.write_text(example)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_the_page_shows_every_function() -> None:
    functions = {name for name in farm.__all__ if name[0].islower()}
    assert functions <= set(re.findall(r"farm\.(\w+)\(", "".join(EXAMPLES)))


def test_farm_offers_what_the_api_does() -> None:
    own = {name for name, each in vars(api).items() if getattr(each, "__module__", "") == api.__name__}
    functions = {name for name in own if inspect.isfunction(getattr(api, name)) and not name.startswith("_")}
    assert functions == {name for name in farm.__all__ if name[0].islower()}
    assert set(farm.__all__) <= set(dir(farm)) & set(dir(api))
    assert all(getattr(farm, name) is getattr(api, name) for name in ("run", "tune", "RunRow", "FarmError"))


ORDERS = {
    "function first": "import farm; found = farm.units(); from farm.units import lookup",
    "module first": "from farm.units import lookup; import farm; found = farm.units()",
    "another module first": "import farm.units.selection, farm.cli, farm; found = farm.units()",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", ORDERS.values(), ids=ORDERS)
def test_a_function_and_a_folder_share_a_name(code: str, tmp_path: Path) -> None:
    code += "; assert [unit.name for unit in found] == ['host'], found"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_mistakes_are_said_at_once(folder: Path) -> None:
    with pytest.raises(farm.FarmError, match=r"no_such\.yml: cannot be read"):
        farm.run("no_such.yml")
    with pytest.raises(farm.FarmError, match="--device nobody: no such unit"):
        farm.benchmark("net.yml", ["nobody"])
    with pytest.raises(farm.FarmError, match="zoo://resnet: no such sample, did you mean 'resnet50'"):
        farm.convert("zoo://resnet")
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        farm.no_such_name  # noqa: B018
