"""Reading and writing the sectioned, checksummed container that plans, tuned parameters and compiled kernels share."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.errors import ConfigError, FormatError
from runtime.host.regular_file import open_regular
from runtime.plan.records import ALIGNMENT_BYTES, FORMAT_VERSION, HEADER, RECORDS, SECTION, SectionId

Sections = dict[SectionId, npt.NDArray[Any]]


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


class StringTable:
    """Collects strings and hands out their offsets; equal strings share one."""

    def __init__(self) -> None:
        self._bytes = bytearray(b"\0")
        self._offsets = {"": 0}

    def add(self, text: str) -> int:
        """Offset of `text` in the section."""
        if text not in self._offsets:
            if "\0" in text:
                raise ValueError(f"a string with a NUL cannot be stored: {text!r}")
            self._offsets[text] = len(self._bytes)
            self._bytes += text.encode() + b"\0"
        return self._offsets[text]

    def section(self) -> npt.NDArray[np.uint8]:
        """The section's bytes."""
        return np.frombuffer(bytes(self._bytes), np.uint8)


def string_reader(sections: Mapping[SectionId, npt.NDArray[Any]]) -> Any:
    """Returns a function that reads the string at an offset; it copies the table only once."""
    table = sections[SectionId.STRINGS].tobytes()

    def read(offset: int) -> str:
        return table[offset : table.index(b"\0", offset)].decode()

    return read


def encode_container(magic: bytes, sections: Mapping[SectionId, npt.NDArray[Any]]) -> bytes:
    """Encodes sections, in order of their ids, as the bytes of a file of the kind that `magic` names."""
    ordered = sorted(sections.items())
    table = np.zeros(len(ordered), SECTION)
    offset = align(HEADER.itemsize + table.nbytes)
    for row, (section_id, records) in zip(table, ordered, strict=True):
        row["id"], row["record_size"], row["count"] = section_id, records.dtype.itemsize, len(records)
        row["offset"] = offset
        offset = align(offset + records.nbytes)
    body = bytearray(offset)
    for row, (_, records) in zip(table, ordered, strict=True):
        start = int(row["offset"])
        body[start : start + records.nbytes] = records.tobytes()
    header = np.zeros((), HEADER)
    header["magic"], header["version"] = magic, FORMAT_VERSION
    header["section_count"], header["file_size"] = len(ordered), offset
    body[: HEADER.itemsize] = header.tobytes()
    body[HEADER.itemsize : HEADER.itemsize + table.nbytes] = table.tobytes()
    header["crc32"] = _checksum(bytes(body))
    body[: HEADER.itemsize] = header.tobytes()
    return bytes(body)


def _checksum(content: bytes) -> int:
    crc_offset = HEADER.itemsize - 4
    return zlib.crc32(content[HEADER.itemsize :], zlib.crc32(content[:crc_offset]))


def decode_container(content: bytes, magic: bytes, where: str) -> Sections:
    """Checks the bytes of a file and returns its sections.

    Raises:
        FormatError: it is truncated, damaged, of another kind or version; the text starts with `where`.
    """
    kind = magic.decode()
    if len(content) < HEADER.itemsize:
        raise FormatError(f"{where}: truncated: {len(content)} bytes are no {kind} file; write it again")
    header = np.frombuffer(content, HEADER, 1)[0]
    if bytes(header["magic"]) != magic:
        raise FormatError(f"{where}: not a {kind} file")
    if header["version"] != FORMAT_VERSION:
        raise FormatError(
            f"{where}: format version {header['version']}, this farm reads {FORMAT_VERSION}; write it again"
        )
    if header["file_size"] != len(content) or header["crc32"] != _checksum(content):
        raise FormatError(f"{where}: damaged or truncated (size or checksum differs); write it again")
    count = int(header["section_count"])
    if HEADER.itemsize + count * SECTION.itemsize > len(content):
        raise FormatError(f"{where}: section table exceeds the file")
    rows = np.frombuffer(content, SECTION, count, HEADER.itemsize)
    return dict(_section(content, row, where) for row in rows)


def _section(content: bytes, row: Any, where: str) -> tuple[SectionId, npt.NDArray[Any]]:
    try:
        section = SectionId(int(row["id"]))
    except ValueError:
        raise FormatError(f"{where}: unknown section {row['id']}") from None
    dtype = RECORDS[section]
    start, count = int(row["offset"]), int(row["count"])
    if row["record_size"] != dtype.itemsize or start + count * dtype.itemsize > len(content):
        raise FormatError(f"{where}: section {row['id']} has a wrong size")
    return section, np.frombuffer(content, dtype, count, start)


def read_file(path: Path, magic: bytes) -> Sections:
    """Reads and checks a container file; raises ConfigError if it cannot be read, FormatError if it is damaged."""
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    return decode_container(content, magic, str(path))
