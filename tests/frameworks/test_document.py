"""What docs/models.md says of each framework works: its lines are executed as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import farm

ROOT = Path(__file__).parents[2]
SECTIONS = (ROOT / "docs/models.md").read_text().split("\n## ")
RECIPES = {section.partition("\n")[0]: section for section in SECTIONS if "```python" in section}
EXTRAS = {"Keras": "tensorflow", "TensorFlow": "tensorflow", "TFLite": "tensorflow", "PyTorch": "pytorch"}

pytestmark = pytest.mark.slow


def block(recipe: str, language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", recipe, re.DOTALL)
    return str(text)


def test_every_framework_has_its_recipe_of_five_lines() -> None:
    assert set(RECIPES) == set(EXTRAS)
    lengths = {block(recipe, language).count("\n") for recipe in RECIPES.values() for language in ("python", "yaml")}
    assert lengths <= {5, 6}


@pytest.mark.parametrize("framework", EXTRAS)
def test_recipes(
    framework: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(f"{EXTRAS[framework]}_models")  # skips where it is not installed
    monkeypatch.chdir(tmp_path)
    recipe = RECIPES[framework]
    subprocess.run([sys.executable, "-c", block(recipe, "python")], check=True, capture_output=True)
    (tmp_path / "net.yml").write_text(block(recipe, "yaml"))
    rows = list(farm.run("net.yml", farm.units(device=["host"]), rounds=1, validate=True))
    assert [(row.runtime, row.status.value, row.reason) for row in rows] == [("cpu", "ok", ""), ("gpu", "ok", "")]
