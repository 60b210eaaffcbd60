"""A file is hashed once, and again as soon as it could be another."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from farm.transport import file_digest
from runtime.errors import JobError


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by each hash that is computed."""
    hashes: list[object] = []
    begin = hashlib.sha256

    def noted() -> object:
        hashes.append(None)
        return begin()

    monkeypatch.setattr(hashlib, "sha256", noted)
    return hashes


def test_a_file_that_stays_is_hashed_once(
    tmp_path: Path, computed: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"content")
    expected = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    later_ns = time.time_ns() + 2 * file_digest.SETTLED_NS
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    assert [file_digest.sha256(tmp_path / "a") for _ in range(3)] == [expected] * 3
    os.link(tmp_path / "a", tmp_path / "b")  # which changes the time of its last change
    assert [file_digest.sha256(tmp_path / name) for name in "ab"] == [expected] * 2
    assert len(computed) == 2


def test_a_young_file_is_hashed_again(tmp_path: Path, computed: list[object]) -> None:
    for content in (b"one", b"two"):
        (tmp_path / "a").write_bytes(content)
        os.utime(tmp_path / "a", (1, 1))
        assert file_digest.sha256(tmp_path / "a") == hashlib.new("sha256", content).hexdigest()
    assert len(computed) == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="gone: cannot be read: No such file"):
        file_digest.sha256(tmp_path / "gone")
