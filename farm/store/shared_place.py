"""A place that several hosts reach: a folder, or whatever else fsspec opens by its URL, an S3 bucket among them.

    PLACE/objects/<SHA-256>        a file of one host or several; never changed
    PLACE/hosts/<host>.json        what tuning left on a host: path below its working directory -> SHA-256
    PLACE/bundles/<host>.json      the bundles of its nights, in the same form

An object comes before the list that names it, and no host writes another's list, so that there is no lock: who reads
finds all or nothing of what a host says it has. What is read is hashed again, and refused where its content is another.

A host does not send what it finds there and what some list names. So what a list names no more is kept for a day
(`dropped`): by then whoever has relied on it names it too. What nobody names goes then, with what was never finished.
"""

import contextlib
import dataclasses
import functools
import hashlib
import posixpath
import re
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import fsspec
from fsspec.implementations.local import LocalFileSystem
from pydantic import Field, ValidationError

from farm import atomic_file
from farm.rows.record import Record
from farm.safe_text import one_line, word
from farm.transport import file_digest
from runtime.errors import ConfigError, FarmError, FormatError
from runtime.host import extras

Shelf = Literal["hosts", "bundles"]
SHELVES: tuple[Shelf, ...] = ("hosts", "bundles")
OBJECTS = "objects"
KEPT_S = 86_400.0  # far above what a host takes to send its files, and any clock is wrong
PIECE_BYTES = 1 << 20
TRIES = 5
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class HostList(Record):
    """What a host has, path -> SHA-256, and since when (Unix time) it has no more what it had."""

    files: dict[str, _Digest] = Field(default_factory=dict)
    dropped: dict[_Digest, float] = Field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Contents:
    """The place before something is sent: sizes of objects, all hosts' lists, and whether all of them can be read."""

    sizes: Mapping[str, int]
    lists: Mapping[tuple[Shelf, str], HostList]
    is_readable: bool

    @functools.cached_property
    def relied_on(self) -> dict[str, int]:
        """The objects that some host has, with their sizes: a file that is among them need not be sent."""
        named = {digest for each in self.lists.values() for digest in each.files.values()}
        return {digest: size for digest, size in self.sizes.items() if digest in named}


class SharedPlace:
    """One place; every method raises FarmError, in one line that names it, where it cannot be reached.

    Args:
        address: a folder or a URL that fsspec knows. Raises ConfigError where it needs a package that is missing.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            self._files, self._root = fsspec.core.url_to_fs(address)
        except ImportError as error:
            missing = extras.needed(address, "s3fs") if "s3fs" in str(error) else f"{address}: {one_line(str(error))}"
            raise ConfigError(missing) from None
        except ValueError as error:
            raise ConfigError(f"{address}: cannot be opened: {one_line(str(error))}") from None

    def __str__(self) -> str:
        return one_line(self._address)

    def hosts(self, shelf: Shelf) -> list[str]:
        """The names of all hosts that have shared something."""
        names = (posixpath.basename(path) for path in self._listed(shelf))
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def files_of(self, shelf: Shelf, host: str) -> dict[str, str]:
        """What a host has, path -> SHA-256: nothing where it is not there. Raises FormatError for a damaged list."""
        return self._list_of(shelf, host).files

    def fetch(self, digest: str, target: Path) -> bool:
        """Brings an object here, whole or not at all; False where it is gone.

        Raises FormatError where its content is another.
        """
        path, found = self._path(OBJECTS, digest), hashlib.sha256()
        with self._reached():
            if not self._files.exists(path):
                return False
        with atomic_file.replacing(target) as file:
            for piece in self._pieces(path):
                found.update(piece)
                file.write(piece)
            if found.hexdigest() != digest:
                raise FormatError(f"{self}: {OBJECTS}/{one_line(digest)} is damaged")
        return True

    def publish(self, shelf: Shelf, host: str, files: Mapping[str, Path]) -> int:
        """Puts a host's files in the place of what it had; how many bytes were sent.

        Raises ConfigError where `host` is no name, FarmError where a file cannot be read or does not stay as it is.
        """
        if not _HOST.fullmatch(host):
            raise ConfigError(f"{host!r} names no host")
        before, contents = self._list_of(shelf, host), self._contents()
        kept, sent = dict[str, str](), dict[str, int]()
        for name, path in files.items():
            kept[name] = digest = file_digest.sha256(path)
            if digest not in sent and contents.relied_on.get(digest) != path.stat().st_size:
                kept[name] = self._send(path, digest)
                sent[kept[name]] = path.stat().st_size
        after = _list_after(before, kept, time.time())
        if after != before:
            self._write(self._path(shelf, f"{host}.json"), after.model_dump_json(indent=1).encode())
        if contents.is_readable:
            self._remove_unnamed(contents.sizes, [*({**contents.lists, (shelf, host): after}).values()])
        return sum(sent.values())

    def _list_of(self, shelf: Shelf, host: str) -> HostList:
        path = self._path(shelf, f"{host}.json")
        with self._reached():
            content = self._files.cat_file(path) if self._files.exists(path) else b"{}"
        try:
            return HostList.model_validate_json(content)
        except ValidationError:
            raise FormatError(f"{self}: {shelf}/{one_line(host)}.json is damaged") from None

    def _contents(self) -> _Contents:
        sizes = {posixpath.basename(path): size for path, size in self._listed(OBJECTS).items()}
        lists, is_readable = dict[tuple[Shelf, str], HostList](), True
        for shelf in SHELVES:
            for host in self.hosts(shelf):
                try:
                    lists[shelf, host] = self._list_of(shelf, host)
                except FormatError:
                    is_readable = False
        return _Contents(sizes, lists, is_readable)

    def _remove_unnamed(self, names: Iterable[str], lists: Iterable[HostList]) -> None:
        """Removes objects that no list names, unless somebody has just sent them."""
        named = {digest for each in lists for digest in (*each.files.values(), *each.dropped)}
        for name in set(names) - named:
            path = self._path(OBJECTS, name)
            with self._reached(), contextlib.suppress(FileNotFoundError):
                if time.time() - self._files.modified(path).timestamp() > KEPT_S:
                    self._files.rm_file(path)

    def _send(self, source: Path, digest: str) -> str:
        """Sends a file under its hash, which is returned; one that grows meanwhile (a journal) is sent again."""
        for _ in range(TRIES):
            with self._appearing(self._path(OBJECTS, digest)) as part:
                with self._reached():
                    self._files.put_file(str(source), part)
                sent, digest = digest, file_digest.sha256(source)
                if digest == sent:
                    return digest
                with self._reached():
                    self._files.rm_file(part)
        raise FarmError(f"{source}: changes while it is sent to {self}")

    def _write(self, path: str, content: bytes) -> None:
        with self._appearing(path) as part, self._reached():
            self._files.pipe_file(part, content)

    @contextlib.contextmanager
    def _appearing(self, path: str) -> Iterator[str]:
        """Where to write a file that shall appear whole: object stores see to that themselves, a folder by renaming."""
        if not isinstance(self._files, LocalFileSystem):
            yield path
            return
        part = Path(f"{path}.{secrets.token_hex(4)}.part")
        with self._reached():
            part.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield str(part)
            with self._reached(), contextlib.suppress(FileNotFoundError):  # what is not to appear was removed
                part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _pieces(self, path: str) -> Iterator[bytes]:
        with self._reached(), self._files.open(path, "rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def _listed(self, folder: str) -> dict[str, int]:
        """The files of a folder of the place, each with its size."""
        path = self._path(folder)
        for _ in range(TRIES):  # a file may go while it is looked at
            with self._reached(), contextlib.suppress(FileNotFoundError):
                self._files.invalidate_cache()
                found = self._files.ls(path, detail=True) if self._files.exists(path) else []
                return {str(each["name"]): int(each["size"] or 0) for each in found if each["type"] == "file"}
        raise FarmError(f"{self}: {folder} changes all the time")

    def _path(self, *parts: str) -> str:
        return posixpath.join(self._root, *parts)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except FarmError:
            raise
        except Exception as error:  # each kind of place has errors of its own
            raise FarmError(f"{self}: {one_line(str(error)) or type(error).__name__}") from None


def own_name(file: Path) -> str:
    """The name that a host's files have in all places; kept in a file, and made once."""
    if not file.is_file():
        host = word(socket.gethostname().partition(".")[0], 60)
        safe = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in host) or "host"
        atomic_file.write(file, f"{safe}-{secrets.token_hex(4)}\n".encode())
    return file.read_text().strip()


def _list_after(before: HostList, files: Mapping[str, str], now: float) -> HostList:
    """A host's new list, with what it dropped within a day."""
    since = {**dict.fromkeys(before.files.values(), now), **before.dropped}
    kept = set(files.values())
    recent = {digest: time_s for digest, time_s in since.items() if digest not in kept and now - time_s < KEPT_S}
    return HostList(files=dict(files), dropped=recent)
