"""A working folder for one measurement: nothing tuned or compiled in it, and what is made in it goes with it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from farm.model.fetch import CACHE_FOLDER

ROOT = Path(__file__).parents[1]
POCL_CACHE = "POCL_CACHE_DIR"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Works in a new folder with a build folder of its own and an empty cache for PoCL's kernels.

    Models that were fetched or generated before are shared with the source tree.
    """
    shared = ROOT / CACHE_FOLDER
    shared.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="farm-benchmark.") as name:
        folder = Path(name)
        (folder / CACHE_FOLDER).parent.mkdir(parents=True)
        (folder / CACHE_FOLDER).symlink_to(shared)
        with contextlib.chdir(folder), _pocl_cache(folder / "pocl"):
            yield folder


@contextlib.contextmanager
def _pocl_cache(folder: Path) -> Iterator[None]:
    """Makes this folder PoCL's cache in processes that are started meanwhile."""
    before = os.environ.get(POCL_CACHE)
    os.environ[POCL_CACHE] = str(folder)
    try:
        yield
    finally:
        del os.environ[POCL_CACHE]
        if before is not None:
            os.environ[POCL_CACHE] = before
