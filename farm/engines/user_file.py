"""Files that a user names in engines.yml: checked by their hash and machine; archives (AARs, wheels) opened safely.

Of an archive one file is read, into a folder and under a name of ours, so that nothing in it says where bytes go; one
that tries to, or would grow beyond a limit, is refused as a whole.
"""

import fnmatch
import lzma
import shutil
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from farm import safe_text
from farm.config.engine_file import DEFAULT_FILE
from farm.engines.elf import is_elf, machine_of, wrong_machine
from farm.transport.file_digest import sha256
from runtime.errors import DeviceError, UnsupportedError
from runtime.native.abi import find_abi

MOST_FILES, MOST_BYTES = 100_000, 2_000_000_000
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, RuntimeError, ValueError, OSError)
_ANDROIDS_NAMES = {"aarch64": "arm64-v8a", "ARM": "armeabi-v7a"}  # of the machines that Linux calls otherwise


def check_hash(engine: str, path: Path, wanted: str | None) -> None:
    """Raises DeviceError where a file is not there, or has another SHA-256 than the one that engines.yml names."""
    if not path.is_file():
        raise DeviceError(f"engine {engine}: {path}: no such file, which {DEFAULT_FILE} names")
    if wanted and sha256(path) != wanted:
        raise DeviceError(f"engine {engine}: {path} has another hash than {DEFAULT_FILE} names: {sha256(path)}")


def library_of(engine: str, path: Path, abi: str, names: Sequence[str], folder: Path) -> Path:
    """The engine's library for an ABI: the file itself, or the one of these names in an archive, read into `folder`.

    Raises UnsupportedError where it is none for the ABI, DeviceError where it cannot be read.
    """
    library = _unpacked(engine, path, abi, names, folder) if zipfile.is_zipfile(path) else path
    if not is_elf(library):
        raise DeviceError(f"engine {engine}: {library.name} is no library, and no archive that has one")
    if text := wrong_machine(library, abi):
        raise UnsupportedError(f"engine {engine}: {text}")
    return library


def _unpacked(engine: str, path: Path, abi: str, names: Sequence[str], folder: Path) -> Path:
    try:
        with zipfile.ZipFile(path) as archive:
            member = _member(engine, path, archive, abi, names)
            library = folder / PurePosixPath(member.filename).name
            with archive.open(member) as source, library.open("wb") as target:
                shutil.copyfileobj(source, target)  # which gives no more bytes than the archive says
    except _DAMAGED as error:
        raise DeviceError(f"engine {engine}: {path} cannot be opened: {safe_text.one_line(str(error))}") from None
    return library


def _member(engine: str, path: Path, archive: zipfile.ZipFile, abi: str, names: Sequence[str]) -> zipfile.ZipInfo:
    """The library's entry; an AAR has one for each ABI, below `jni`."""
    members = archive.infolist()
    for each in members:
        if each.filename.startswith("/") or "\\" in each.filename or ".." in each.filename.split("/"):
            shown = safe_text.word(each.filename)
            raise DeviceError(f"engine {engine}: {path} is refused: its file {shown} would lie outside of it")
    if len(members) > MOST_FILES:
        raise DeviceError(f"engine {engine}: {path} is refused: it has {len(members)} files, more than {MOST_FILES}")
    found = [each for name in names for each in members if is_one_of(each.filename, (name,))]  # the first name's first
    machine = machine_of(abi)
    own = abi if find_abi(abi).is_android else _ANDROIDS_NAMES.get(machine, machine)
    fitting = [each for each in found if not each.filename.startswith("jni/") or each.filename.split("/")[1] == own]
    if not fitting:
        there = ", ".join(safe_text.word(each.filename) for each in found) or f"no {' or '.join(names)}"
        raise UnsupportedError(f"engine {engine}: {path} has no library for {abi} ({own}); it has {there}")
    size_bytes = fitting[0].file_size
    if size_bytes > MOST_BYTES:
        much = f"{fitting[0].filename} has {size_bytes} bytes, more than {MOST_BYTES}"
        raise DeviceError(f"engine {engine}: {path} is refused: {much}")
    return fitting[0]


def is_one_of(file: str, names: Sequence[str]) -> bool:
    """Whether a file is called by one of these names, which may have wildcards."""
    return any(fnmatch.fnmatch(PurePosixPath(file).name, name) for name in names)
