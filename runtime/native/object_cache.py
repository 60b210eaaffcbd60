"""Objects of farmrt that were compiled before, by what they are made of, so that builds share them.

Builds differ in a few files: those without an engine, with some operators alone, or after a change to one C file. The
compiler's version stands for its own headers, as it does for a whole build.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from runtime.native.compiling import Compiled, TranslationUnit, compile_translation_units, untold
from runtime.native.toolchains import Toolchain

VARIABLE = "FARM_OBJECTS"  # names another folder, such as one that a CI keeps
_SOURCES = Path(__file__).parents[1]
_KEPT_S = 30 * 24 * 3600.0


def compile_or_take(
    toolchain: Toolchain,
    flags: Sequence[str],
    units: Sequence[TranslationUnit],
    folder: Path,
    cache: Path,
    compiled: Compiled = untold,
    include: Sequence[str] = (),
) -> list[Path]:
    """The objects of units, in a folder: those in the cache are copied, others compiled and kept; raises BuildError.

    Headers may lie in the folder, too; `include` are the flags by which sources find headers, wherever these lie.
    """
    told = _digest_of_all(toolchain, flags, folder)
    kept = {unit: cache / _key(told, unit, by_path="-g" in flags) for unit in units}
    missing = [unit for unit, path in kept.items() if not _copied(path, folder / f"{unit.name}.o")]
    if missing:
        compile_translation_units(toolchain.compiler, [*flags, *include], missing, folder, compiled)
        with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
            cache.mkdir(parents=True, exist_ok=True)
            for unit in missing:
                _keep(folder / f"{unit.name}.o", kept[unit])
            _forget(cache, time.time() - _KEPT_S)
    return [folder / f"{unit.name}.o" for unit in units]


def _digest_of_all(toolchain: Toolchain, flags: Sequence[str], folder: Path) -> bytes:
    """Of the compiler, its flags, and every header that a source may include."""
    digest = hashlib.sha256(repr((toolchain, tuple(flags))).encode())
    for root in (_SOURCES, folder):
        for path in sorted(root.rglob("*.h")):
            digest.update(f"\0{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.digest()


def _key(told: bytes, unit: TranslationUnit, by_path: bool) -> str:
    """Name of a unit's object; with debug information it holds the path of its source too."""
    name = str(unit.source) if by_path else unit.source.name
    return hashlib.sha256(told + repr((name, unit.flags)).encode() + unit.source.read_bytes()).hexdigest() + ".o"


def _copied(kept: Path, object_file: Path) -> bool:
    """Copies a kept object, and marks it as used now; says whether there is one."""
    try:
        shutil.copyfile(kept, object_file)
        os.utime(kept)
    except OSError:
        return False
    return True


def _keep(object_file: Path, kept: Path) -> None:
    """Another process never sees half of it."""
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".half-") as folder:
        shutil.copyfile(object_file, Path(folder) / "object").replace(kept)


def _forget(cache: Path, before: float) -> None:
    """Removes what no build has used since then."""
    for path in cache.iterdir():
        with contextlib.suppress(OSError):  # another process removes the same
            if path.stat().st_mtime < before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
