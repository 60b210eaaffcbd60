"""Made-up bundles of nights."""

from pathlib import Path
from typing import Any

from farm.rows.bundle import BundleManifest
from farm.store.bundle_archive import BundleArchive


def manifest(run: int, model: str = "m", **more: Any) -> BundleManifest:
    """The manifest of a night."""
    names = {"name": "lab", "unit": "u", "soc": "s", "library": "l", "runtime": "gpu", "setting": "default"}
    return BundleManifest(model=model, run=run, started=f"2026-01-{run:02}T00:00:00+00:00", **{**names, **more})


def left(archive: BundleArchive, run: int, folder: Path, model: str = "m", **contents: bytes) -> BundleManifest:
    """A bundle in the archive; `contents` are its files by role."""
    folder.mkdir(exist_ok=True)
    files = {}
    for role, content in contents.items():
        files[role] = folder / f"{run}.{role}"
        files[role].write_bytes(content)
    return archive.leave(manifest(run, model), files)
