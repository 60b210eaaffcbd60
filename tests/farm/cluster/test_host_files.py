"""A host's files: each once by its hash, whole or not at all, and none outside of a job's folder."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from farm.cluster import host_tasks
from farm.cluster.host_files import DAY_S, SHARED, HostFiles
from runtime.errors import ConfigError, FarmError

CONTENT = b"weights" * 1000
NOW_S = time.time()
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def test_a_file_is_there_when_its_last_part_has_come(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    files.add_part(DIGEST, "1", CONTENT[:100], False)
    assert files.missing([DIGEST]) == [DIGEST]
    files.add_part(DIGEST, "1", CONTENT[100:], True)
    assert files.missing([DIGEST]) == []
    assert files.read_part(DIGEST, 0, 10**6) == CONTENT and files.read_part(DIGEST, len(CONTENT), 10) == b""


def test_two_that_send_one_file_do_not_mix(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    for upload in ("1", "2"):
        files.add_part(DIGEST, upload, CONTENT[:50], False)
    for upload in ("2", "1"):
        files.add_part(DIGEST, upload, CONTENT[50:], True)
    assert files.read_part(DIGEST, 0, 10**6) == CONTENT


def test_a_file_with_another_hash_is_not_kept(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    with pytest.raises(FarmError, match="a file arrived with the hash"):
        files.add_part(DIGEST, "1", b"something else", True)
    assert files.missing([DIGEST]) == [DIGEST]
    assert not list((tmp_path / "build/cluster/parts").iterdir())


def test_a_job_finds_its_files_and_what_belongs_to_the_host(tmp_path: Path) -> None:
    (tmp_path / "devices.yml").write_text("devices: {}\n")
    files = HostFiles(tmp_path)
    files.add_part(DIGEST, "1", CONTENT, True)
    folder = files.job_folder({"files/a.onnx": DIGEST, "model.yml": DIGEST})
    assert (folder / "files/a.onnx").read_bytes() == CONTENT
    assert (folder / "devices.yml").read_text() == "devices: {}\n"
    assert all((folder / name).resolve() == tmp_path / name for name in SHARED)
    (folder / "model.yml").write_text("changed by a job")
    assert files.job_folder({"model.yml": DIGEST, "files/a.onnx": DIGEST}) == folder
    assert files.read_part(DIGEST, 0, 10**6) == CONTENT, "a job has copies"
    assert files.job_folder({"model.yml": DIGEST}) != folder


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", ""])
def test_no_file_lies_outside_of_the_jobs_folder(tmp_path: Path, name: str) -> None:
    files = HostFiles(tmp_path)
    files.add_part(DIGEST, "1", CONTENT, True)
    with pytest.raises(ConfigError, match="lies in its own folder"):
        files.job_folder({name: DIGEST})


def test_hashes_and_uploads_name_no_paths(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    with pytest.raises(ConfigError, match=r"is no SHA-256"):
        files.read_part("../../etc/passwd", 0, 1)
    with pytest.raises(ConfigError, match="names no upload"):
        files.add_part(DIGEST, "../x", b"", False)


def test_what_a_job_made_is_kept(tmp_path: Path) -> None:
    made = tmp_path / "y.npy"
    made.write_bytes(CONTENT)
    assert HostFiles(tmp_path).keep(made) == DIGEST
    assert HostFiles(tmp_path).missing([DIGEST]) == []


def test_small_files_travel_together(own_folder: Path) -> None:
    contents = {hashlib.sha256(content).hexdigest(): content for content in (b"one", b"", b"two" * 1000)}
    host_tasks.receive_files(list(contents.items()))
    assert host_tasks.missing_files(list(contents)) == []
    assert {digest: host_tasks.read_part(digest, 0, 10_000) for digest in contents} == contents
    with pytest.raises(FarmError, match="arrived with the hash"):
        host_tasks.receive_files([("0" * 64, b"other")])


def test_what_a_job_leaves_is_what_it_changed_and_all_that_a_changed_manifest_tells_of(own_folder: Path) -> None:
    files = HostFiles(own_folder)
    sent = {}
    for name in ("build/l/opencl/host/manifest.json", "build/l/opencl/host/a.bin", "build/l/cpu/host/m.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
        sent[name] = files.keep(Path(name))
    assert files.left(own_folder, sent) == {}
    Path("build/tuning").mkdir()
    Path("build/tuning/host.jsonl").write_text("trial")
    assert set(files.left(own_folder, sent)) == {"build/tuning/host.jsonl"}
    Path("build/l/opencl/host/manifest.json").write_text("new")
    assert set(files.left(own_folder, sent)) == {"build/tuning/host.jsonl", *list(sent)[:2]}


def test_a_job_that_leaves_files_has_a_folder_of_its_own(own_folder: Path) -> None:
    files = HostFiles(own_folder)
    assert files.job_folder({}) == files.job_folder({}) != files.job_folder({}, "task")


def aged(path: Path, days: float) -> Path:
    os.utime(path, (NOW_S - days * DAY_S,) * 2)
    return path


def test_what_nobody_used_for_long_goes_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    (tmp_path / "made").write_bytes(b"abc")
    digest = files.keep(tmp_path / "made")
    folder = files.job_folder({"model.onnx": digest})
    facts = tmp_path / "build/cache/facts.json"
    facts.write_text("{}")
    assert files.clean(NOW_S + DAY_S) == []
    aged(folder, 15), aged(tmp_path / "build/cluster/objects" / digest, 13)
    assert files.clean(NOW_S) == [folder] and not folder.exists() and facts.read_text() == "{}"
    assert files.missing([digest]) == [], "who asks for it has used it"
    assert files.clean(time.time() + 13 * DAY_S) == []
    assert len(files.clean(time.time() + 15 * DAY_S)) == 1 and files.missing([digest]) == [digest]


def test_beyond_the_limit_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    objects = []
    for days in (3, 2, 0.5, 0.1):
        (tmp_path / "made").write_bytes(bytes(1000) + str(days).encode())
        objects.append(aged(tmp_path / "build/cluster/objects" / files.keep(tmp_path / "made"), days))
    assert files.clean(NOW_S, limit_bytes=3500) == objects[:1]
    assert files.clean(NOW_S, limit_bytes=0) == objects[1:2], "what a job may be at stays"
