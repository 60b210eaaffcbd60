"""Says what is wrong with the name of a file that a user typed: nothing is there, or a folder."""

import difflib
from pathlib import Path

DEPLOYMENTS = (".yml", ".yaml")
MAX_NAMED = 5
LIKENESS = 0.8  # one letter of a short name; most files of a folder share their ending


def missing(path: Path, otherwise: str = "") -> str:
    """That no file is there, and the name of one that is nearly the same, `otherwise` where none is."""
    if path.parts[:1] in (("http:",), ("https:",)):
        return "no file of this machine; download it, or name it as model_file_path of a deployment file"
    if not path.parent.is_dir():
        return f"no such file; there is no folder {path.parent}"
    if path.is_symlink():
        return f"a link to {path.readlink()}, where no file is"
    there = [entry.name for entry in path.parent.iterdir()] if path.name else []
    near = difflib.get_close_matches(path.name, there, n=1, cutoff=LIKENESS)
    return f"no such file, did you mean {str(path.with_name(near[0]))!r}?" if near else f"no such file{otherwise}"


def folder(path: Path) -> str:
    """That it is a folder, and which deployment files lie in it."""
    files = sorted(str(entry) for entry in path.iterdir() if entry.suffix in DEPLOYMENTS)
    more = ", ..." if len(files) > MAX_NAMED else ""
    return f"a folder; name a file in it: {', '.join(files[:MAX_NAMED])}{more}" if files else "a folder, not a file"
