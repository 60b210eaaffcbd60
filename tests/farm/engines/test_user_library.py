"""C libraries of the user's: plain files and archives, and every one that is refused."""

from __future__ import annotations

import hashlib
import random
import zipfile
from pathlib import Path

import pytest

from farm.config.engine_file import load_engine_file
from farm.engines import registry, user_file
from farm.engines.elf import machine_of
from farm.engines.user_file import check_hash, library_of
from runtime.errors import ConfigError, DeviceError, FarmError, UnsupportedError

NAMES = ("libmine.so*",)
LIBRARIES = """\
libraries:
  onnxruntime:
    file: {arm64-v8a: mine.aar}
"""


def library(machine: int) -> bytes:
    """The beginning of a library for a machine by ELF's number: 183 is ARM64, 62 x86-64."""
    return b"\x7fELF\x02\x01\x01" + bytes(11) + machine.to_bytes(2, "little") + bytes(44)


def write_archive(folder: Path, **files: bytes) -> Path:
    path = folder / "mine.aar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def opened(path: Path, abi: str = "arm64-v8a") -> Path:
    return library_of("mine", path, abi, NAMES, path.parent)


@pytest.mark.parametrize(("abi", "machine"), [("arm64-v8a", "ARM64"), ("arm64", "ARM64"), ("armeabi-v7a", "ARM")])
def test_an_archive_has_a_library_for_each_abi(tmp_path: Path, abi: str, machine: str) -> None:
    numbers = {"arm64-v8a": 183, "armeabi-v7a": 40, "x86_64": 62}
    files = {f"jni/{folder}/libmine.so": library(number) for folder, number in numbers.items()}
    found = opened(write_archive(tmp_path, **{"classes.jar": b"", "jni/arm64-v8a/libother.so": b"", **files}), abi)
    assert found == tmp_path / "libmine.so"
    assert found.read_bytes() == library(183 if machine == "ARM64" else 40)


def test_a_wheel_and_a_library_itself_serve_too(tmp_path: Path) -> None:
    assert opened(write_archive(tmp_path, **{"mine/capi/libmine.so.1.2": library(183)})).name == "libmine.so.1.2"
    plain = tmp_path / "plain.so"
    plain.write_bytes(library(183))
    assert opened(plain) == plain


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        (
            {"jni/x86_64/libmine.so": library(62)},
            UnsupportedError,
            "has no library for arm64-v8a (arm64-v8a); it has jni/x86",
        ),
        ({"jni/arm64-v8a/other.so": b""}, UnsupportedError, "it has no libmine.so*"),
        (
            {"jni/arm64-v8a/libmine.so": library(62)},
            UnsupportedError,
            "libmine.so is made for x86_64, and arm64-v8a is aarch64",
        ),
        ({"jni/arm64-v8a/libmine.so": b"no library"}, DeviceError, "libmine.so is no library, and no archive"),
        ({"../libmine.so": library(183)}, DeviceError, "its file ../libmine.so would lie outside of it"),
        ({"jni/arm64-v8a/libmine.so": library(183), "/etc/x": b""}, DeviceError, "its file /etc/x would lie outside"),
        ({"jni/..\\libmine.so": library(183)}, DeviceError, "would lie outside of it"),
    ],
)
def test_an_archive_without_a_good_library_is_refused(
    tmp_path: Path, files: dict[str, bytes], kind: type[FarmError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        opened(write_archive(tmp_path, **files))
    assert (
        words in str(caught.value) and str(caught.value).startswith("engine mine: ") and "\n" not in str(caught.value)
    )


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.so").write_bytes(library(183))
    link = zipfile.ZipInfo("jni/arm64-v8a/libmine.so")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "mine.aar", "w") as archive:
        archive.writestr(link, str(tmp_path / "secret.so"))
    with pytest.raises(DeviceError, match=r"engine mine: libmine\.so is no library, and no archive that has one"):
        opened(tmp_path / "mine.aar")
    assert not (tmp_path / "libmine.so").is_symlink()


def test_an_archive_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_archive(tmp_path, **{"jni/arm64-v8a/libmine.so": library(183) + bytes(1_000_000), "b": b""})
    assert path.stat().st_size < 10_000, "a bomb, if a small one"
    monkeypatch.setattr(user_file, "MOST_BYTES", 1_000_000)
    with pytest.raises(
        DeviceError, match=r"is refused: jni/arm64-v8a/libmine\.so has 1000064 bytes, more than 1000000"
    ):
        opened(path)
    monkeypatch.setattr(user_file, "MOST_FILES", 1)
    with pytest.raises(DeviceError, match="is refused: it has 2 files, more than 1"):
        opened(path)


@pytest.mark.parametrize("damage", ["short", "flipped", "encrypted"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    path = write_archive(tmp_path, **{"jni/arm64-v8a/libmine.so": library(183) + bytes(range(256)) * 40})
    content = bytearray(path.read_bytes())
    if damage == "short":
        del content[60:120]
    elif damage == "flipped":
        content[80] ^= 0xFF
    else:
        for start in (6, content.index(b"PK\x01\x02") + 8):
            content[start] |= 1
    path.write_bytes(content)
    with pytest.raises(DeviceError, match=r"engine mine: .*mine\.aar cannot be opened: "):
        opened(path)


@pytest.mark.slow
def test_whatever_bytes_an_archive_has_it_is_read_or_refused(tmp_path: Path) -> None:
    """Every byte of a small archive in turn, at random: no other error, and nothing beside the library."""
    path, order = write_archive(tmp_path, **{"jni/arm64-v8a/libmine.so": library(183) * 3, "b": b"b"}), random.Random(1)
    content, ends = path.read_bytes(), {"read": 0, "refused": 0}
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([order.randrange(256)]) + content[at + 1 :])
        try:
            assert opened(path).name in ("libmine.so", path.name)
            ends["read"] += 1
        except (DeviceError, UnsupportedError):
            ends["refused"] += 1
    assert min(ends.values()) > 20 and {each.name for each in tmp_path.iterdir()} <= {"libmine.so", path.name}


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.so"
    with pytest.raises(DeviceError, match=r"mine\.so: no such file, which engines\.yml names"):
        check_hash("mine", path, None)
    path.write_bytes(b"mine")
    digest = hashlib.sha256(b"mine").hexdigest()
    check_hash("mine", path, digest)
    with pytest.raises(DeviceError, match=rf"mine\.so has another hash than engines\.yml names: {digest}"):
        check_hash("mine", path, "0" * 64)


def test_a_mistake_in_the_file_has_its_line(own_folder: Path) -> None:
    Path("engines.yml").write_text(LIBRARIES.replace("file:", "fil:"))
    with pytest.raises(ConfigError, match=r"engines\.yml:3: libraries\.onnxruntime\.fil: .*did you mean 'file'"):
        load_engine_file()
    Path("engines.yml").write_text(LIBRARIES.replace("onnxruntime", "mnn"))
    with pytest.raises(ConfigError, match=r"libraries\.mnn: farm runs the C libraries of onnxruntime and litert"):
        registry.engines()
    Path("engines.yml").write_text(LIBRARIES)
    assert registry.engines()["onnxruntime"].missing() == ""
    assert machine_of("arm64-v8a") == "aarch64"
