"""known_hosts as OpenSSH writes it: hashes, patterns, several names, marked lines."""

import os
import stat
from pathlib import Path

import paramiko
import pytest

from farm.transport import ssh_known_hosts
from farm.transport.ssh_config import NO_FILE, SshTarget
from runtime.errors import ConfigError, DeviceError

KEY = paramiko.ECDSAKey.generate()
OTHER = paramiko.ECDSAKey.generate()
SHOWN = f"{KEY.get_name()} {KEY.get_base64()}"
ANOTHER = f"{OTHER.get_name()} {OTHER.get_base64()}"
HASHED = paramiko.HostKeys.hash_host("[lab]:2222")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def target(file: Path) -> SshTarget:
    return SshTarget("lab", 2222, "me", (), (file, file.with_name("global")))


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("", "unknown"),
        (f"[lab]:2222 {SHOWN}", "known"),
        (f"[LAB]:2222 {SHOWN} a comment", "known"),
        (f"lab {SHOWN}", "unknown"),
        (f"other,[lab]:2222 {SHOWN}", "known"),
        (f"{HASHED} {SHOWN}", "known"),
        (f"[l?b]:* {SHOWN}", "known"),
        (f"[*]:2222,![lab]:2222 {SHOWN}", "unknown"),
        (f"[lab]:2222 {ANOTHER}", "changed"),
        (f"{HASHED} {ANOTHER}", "changed"),
        (f"[lab]:2222 {ANOTHER}\n[lab]:2222 {SHOWN}", "known"),
        (f"[lab]:2222 {SHOWN}\n@revoked * {SHOWN}", "revoked"),
        (f"@cert-authority * {SHOWN}", "unknown"),
        ("# a comment\n|1|damaged|line x y\n[lab]:2222", "unknown"),
    ],
)
def test_a_key_is_trusted_by_matching_entries_only(tmp_path: Path, line: str, state: str) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{line}\n")
    judged = ssh_known_hosts.evaluate_key(target(file), KEY)
    assert (judged.state, judged.fingerprint) == (state, KEY.fingerprint)
    if state == "known":
        ssh_known_hosts.require_trusted("board", judged)
    else:
        with pytest.raises(DeviceError, match=r"^board: \[lab\]:2222 shows the host key SHA256:") as refused:
            ssh_known_hosts.require_trusted("board", judged)
        assert refused.value.kind == f"host-key-{state}"


def test_a_renewed_key_replaces_those_of_its_host_only(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    others = [f"lab {ANOTHER}", f"@revoked * {ANOTHER}", "# [lab]:2222", f"*.example {ANOTHER}"]
    file.write_text("\n".join([*others, f"{HASHED} {ANOTHER}", f"[lab]:2222 {ANOTHER}", f"a,[lab]:2222,b {ANOTHER}"]))
    ssh_known_hosts.add_key(ssh_known_hosts.evaluate_key(target(file), KEY))
    assert file.read_text().splitlines() == [*others, f"a,b {ANOTHER}", f"[lab]:2222 {SHOWN}"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert ssh_known_hosts.evaluate_key(target(file), KEY).state == "known"


def test_keys_in_the_global_file_are_trusted(tmp_path: Path) -> None:
    (tmp_path / "global").write_text(f"[lab]:2222 {SHOWN}\n")
    assert ssh_known_hosts.evaluate_key(target(tmp_path / "known_hosts"), KEY).state == "known"
    assert ssh_known_hosts.known_algorithms(target(tmp_path / "known_hosts")) == [KEY.get_name()]


def a_device(folder: Path) -> Path:
    """What /dev/null is, where a fault may break it."""
    device = folder / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        device.symlink_to(os.devnull)
    return device


def test_what_is_no_file_of_the_users_own_is_never_replaced(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    device, link, shared = a_device(home), home / "link", tmp_path_factory.mktemp("lab") / "known_hosts"
    shared.write_text(f"[lab]:2222 {ANOTHER}\n")
    shared.chmod(0o644)
    link.symlink_to(shared)
    for file, problem in [
        (device, "keeps nothing"),
        (NO_FILE, "keeps nothing"),
        (shared, "outside"),
        (link, "outside"),
    ]:
        with pytest.raises(ConfigError, match=rf"^{file} .*{problem}.*: \[lab\]:2222 ecdsa-sha2-nistp256 AAAA"):
            ssh_known_hosts.add_key(ssh_known_hosts.evaluate_key(target(file), KEY))
    assert stat.S_ISCHR(device.stat().st_mode)
    assert (shared.read_text(), shared.stat().st_mode & 0o777) == (f"[lab]:2222 {ANOTHER}\n", 0o644)
    assert link.is_symlink()
