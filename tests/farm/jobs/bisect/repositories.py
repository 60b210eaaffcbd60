"""A repository of models with commits, one of which makes the network larger."""

import subprocess
from pathlib import Path

from tests.farm.model.tiny_model import deployment_text, tiny_model


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def model_repository(
    folder: Path, commits: int, slow_from: int, small: str = "1,3,8,8", large: str = "9,3,8,8", **more: str
) -> Path:
    """Commits `number 0` to the last; from `slow_from` on the model's batch is larger; `more` are keys of the model."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "tiny.onnx").write_bytes(tiny_model().SerializeToString())
    for number in range(commits):
        shape = large if number >= slow_from else small
        (folder / "tiny.yml").write_text(deployment_text(shape=shape, runtime="cpu", **more))
        (folder / "notes.txt").write_text(f"{number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"number {number}")
    return folder
