"""SSH against a server in this process, and against a real sshd where there is one; and what breaks between them."""

import dataclasses
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from benchmarks.loopback import free_port
from farm import transport as transports
from farm.config.inventory import Unit
from farm.transport import ssh, ssh_backoff
from farm.transport.base import Transport
from farm.transport.ssh_connection import SshTimeouts
from runtime.errors import ConfigError, DeadlineError, DeviceError, DeviceLostError
from tests.conftest import require
from tests.farm.transport.contract import DEADLINE_S, ODD_NAMES, PosixContract, run_shell, wait_until_ended
from tests.farm.transport.openssh_server import running_sshd
from tests.farm.transport.ssh_server import BreakableProxy, SshServer
from tests.farm.transport.unit_shells import SHELLS, shell_environment

SHORT = SshTimeouts(connect_s=60.0, idle_s=0.2, dead_s=2.5)  # the server of the tests shares this process


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this machine's user without keys, agent or configuration."""
    folder = tmp_path / "user"
    (folder / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def key(tmp_path: Path) -> paramiko.PKey:
    made = paramiko.ECDSAKey.generate()
    made.write_private_key_file(str(tmp_path / "key"))
    return made


@pytest.fixture
def server(tmp_path: Path, key: paramiko.PKey) -> Iterator[SshServer]:
    with SshServer(tmp_path / "board", key) as running:
        yield running


def unit_at(port: int, key_file: Path, jump: str = "") -> Unit:
    return Unit(
        name="board",
        transport="ssh",
        soc="rk3399",
        model="board",
        abis=("arm64",),
        address="127.0.0.1",
        port=port,
        key_file=key_file,
        jump=jump,
    )


def trusted(unit: Unit) -> Unit:
    """The unit, after `farm devices trust` for it and all jump hosts before it."""
    while (shown := ssh.host_key_of(unit)).state != "known":
        ssh.trust(shown)
    return unit


@pytest.fixture
def board(server: SshServer, tmp_path: Path) -> Unit:
    return trusted(unit_at(server.port, tmp_path / "key"))


@pytest.mark.slow
class TestServer(PosixContract):
    @pytest.fixture
    def transport(self, board: Unit) -> Iterator[Transport]:
        opened = transports.connect(board)
        yield opened
        opened.close()


@pytest.mark.slow
class TestSshd(PosixContract):
    @pytest.fixture
    def transport(self, tmp_path: Path, key: paramiko.PKey) -> Iterator[Transport]:
        with running_sshd(tmp_path / "sshd", f"{key.get_name()} {key.get_base64()}\n") as (port, _):
            opened = transports.connect(trusted(unit_at(port, tmp_path / "key")))
            yield opened
            opened.close()


def test_a_host_key_that_nobody_knows_is_refused_with_the_command_that_accepts_it(
    server: SshServer, tmp_path: Path, home: Path
) -> None:
    unit = unit_at(server.port, tmp_path / "key")
    with pytest.raises(DeviceError, match=r"SHA256:\S{43} .*not known yet.*farm devices trust board") as refused:
        transports.connect(unit)
    assert refused.value.kind == "host-key-unknown"
    shown = ssh.host_key_of(unit)
    assert (shown.host, shown.state) == (f"[127.0.0.1]:{server.port}", "unknown")
    assert shown.fingerprint == server.key.fingerprint
    assert shown.fingerprint in str(refused.value)
    ssh.trust(shown)
    assert (home / ".ssh/known_hosts").read_text() == f"{shown.line}\n"
    assert ssh.host_key_of(unit).state == "known"
    transports.connect(unit).close()


def test_a_changed_host_key_may_be_an_attack_until_it_is_renewed(server: SshServer, board: Unit, home: Path) -> None:
    file = home / ".ssh/known_hosts"
    file.write_text(f"# mine\nother ssh-rsa AAAA\n{file.read_text()}")
    server.key = paramiko.ECDSAKey.generate()
    with pytest.raises(DeviceError, match=r"attack.*farm devices trust board") as refused:
        transports.connect(board)
    assert refused.value.kind == "host-key-changed"
    renewed = ssh.host_key_of(board)
    assert renewed.state == "changed"
    ssh.trust(renewed)
    assert file.read_text() == f"# mine\nother ssh-rsa AAAA\n{renewed.line}\n"
    transports.connect(board).close()


def test_a_login_that_is_refused_says_what_was_tried(server: SshServer, board: Unit, tmp_path: Path) -> None:
    server.accepted = paramiko.ECDSAKey.generate()
    with pytest.raises(
        DeviceError, match=r"login refused: 1 key\(s\) tried; .*ssh-copy-id -p \d+ \w+@[\d.]+$"
    ) as refused:
        transports.connect(board)
    assert refused.value.kind == "login"
    nobody = dataclasses.replace(board, key_file=tmp_path / "missing")
    with pytest.raises(DeviceError, match=r"0 key\(s\) tried; \S*missing cannot be read"):
        transports.connect(nobody)


def test_a_key_with_a_passphrase_belongs_into_the_agent(server: SshServer, board: Unit, tmp_path: Path) -> None:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "locked"), password="not told to anybody")
    with pytest.raises(DeviceError, match=r"locked has a passphrase \(bring it to the agent: ssh-add"):
        transports.connect(dataclasses.replace(board, key_file=tmp_path / "locked"))


def test_a_key_of_the_agent_logs_in(
    server: SshServer, key: paramiko.PKey, board: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("sshd", "" if shutil.which("ssh-agent") else "no ssh-agent on this machine")
    path = str(tmp_path / "agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    while not Path(path).exists():
        time.sleep(0.01)
    subprocess.run(["ssh-add", "-q", tmp_path / "key"], check=True)
    transports.connect(dataclasses.replace(board, key_file=None)).close()
    agent.kill()
    agent.wait()


@pytest.fixture
def agent(tmp_path: Path, key: paramiko.PKey) -> Iterator[Path]:
    """The socket of an agent with twenty keys that open nothing, and then the one that does."""
    require("sshd", "" if shutil.which("ssh-agent") else "no ssh-agent on this machine")
    path = tmp_path / "agent"
    for index in range(20):
        paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / f"key{index}"))
    names = [*(f"key{index}" for index in range(20)), "key"]
    with subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL) as running:
        try:
            while not path.exists():
                time.sleep(0.01)
            environment = {**os.environ, "SSH_AUTH_SOCK": str(path)}
            subprocess.run(["ssh-add", "-q", *names], check=True, cwd=tmp_path, env=environment)
            yield path
        finally:
            running.kill()


def test_the_agents_right_key_is_named_where_it_has_many(
    agent: Path, key: paramiko.PKey, tmp_path: Path, home: Path
) -> None:
    line = f"{key.get_name()} {key.get_base64()}\n"
    (tmp_path / "name.pub").write_text(line)
    config = home / ".ssh/config"
    config.write_text(f"Host *\n  IdentityAgent {agent}\n")
    with running_sshd(tmp_path / "sshd", line) as (port, _):
        unit = dataclasses.replace(trusted(unit_at(port, tmp_path / "key")), key_file=None)
        with pytest.raises(DeviceError, match=r"key\(s\) tried; then it hung up \(MaxAuthTries\): name the right key"):
            transports.connect(unit)
        with config.open("a") as file:
            file.write(f"  IdentityFile {tmp_path}/name.pub\n  IdentitiesOnly yes\n")
        transports.connect(unit).close()
        config.write_text(config.read_text().replace(str(agent), "none"))
        with pytest.raises(DeviceError, match=r"0 key\(s\) tried; .*name.pub is a public key, and the agent does not"):
            transports.connect(unit)


def test_an_old_board_is_told_apart_from_a_missing_key(server: SshServer, board: Unit, tmp_path: Path) -> None:
    key = paramiko.RSAKey.generate(2048)
    key.write_private_key_file(str(tmp_path / "rsa"))
    unit = dataclasses.replace(board, key_file=tmp_path / "rsa")
    with pytest.raises(DeviceError, match=r"1 key\(s\) tried; bring yours there"):
        transports.connect(unit)
    server.tells_algorithms = False
    with pytest.raises(DeviceError, match=r"1 key\(s\) tried; its sshd may take RSA keys by SHA-1 only.*Ed25519"):
        transports.connect(unit)
    server.accepted = key
    transports.connect(unit).close()
    with (
        running_sshd(tmp_path / "b", "", "KexAlgorithms=diffie-hellman-group1-sha1") as (port, _),
        pytest.raises(DeviceError, match=r"offers nothing that is still safe \(.*\): update it there"),
    ):
        transports.connect(unit_at(port, tmp_path / "key"))


def test_only_the_named_keys_are_shown(agent: Path, server: SshServer, board: Unit, tmp_path: Path, home: Path) -> None:
    (home / ".ssh/config").write_text(
        f"Host *\n  IdentityAgent {agent}\n  IdentityFile {tmp_path}/key3\n  IdentitiesOnly yes\n"
    )
    with pytest.raises(DeviceError, match=r"login refused: 1 key\(s\) tried; bring yours"):
        transports.connect(dataclasses.replace(board, key_file=None))


def test_a_host_key_may_stand_under_another_name(server: SshServer, board: Unit, home: Path) -> None:
    (home / ".ssh/config").write_text("Host *\n  HostKeyAlias rack-7\n")
    assert ssh.host_key_of(board).state == "unknown"
    (home / ".ssh/known_hosts").write_text(f"rack-7 {server.key.get_name()} {server.key.get_base64()}\n")
    transports.connect(board).close()


def test_a_board_that_is_flashed_each_week_needs_no_known_key(server: SshServer, board: Unit, home: Path) -> None:
    (home / ".ssh/config").write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    for _ in range(2):
        server.key = paramiko.ECDSAKey.generate()
        transports.connect(board).close()
    (home / ".ssh/config").write_text("Host *\n  StrictHostKeyChecking accept-new\n")
    with pytest.raises(DeviceError, match=r"but .*known_hosts holds another one"):
        transports.connect(board)
    (home / ".ssh/known_hosts").unlink()
    transports.connect(board).close()
    assert ssh.host_key_of(board).state == "known"


def test_a_units_messages_cannot_steer_the_terminal(board: Unit) -> None:
    opened = transports.connect(board)
    process = opened.start(["sh", "-c", r"printf '\033[2J\007evil' >&2; exit 1"])
    with pytest.raises(DeviceLostError) as lost:
        process.read_line(DEADLINE_S)
    assert str(lost.value).isprintable()
    opened.close()


def test_a_refused_connection_says_what_to_check(board: Unit) -> None:
    with pytest.raises(DeviceError, match=r"connection refused; is sshd running"):
        transports.connect(dataclasses.replace(board, port=free_port()))


def test_an_unknown_host_name_says_so(board: Unit) -> None:
    with pytest.raises(DeviceError, match=r"the name 'board.invalid' is not found .*devices.yml"):
        transports.connect(dataclasses.replace(board, address="board.invalid"))


def test_another_server_on_the_port_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        unit = unit_at(listening.getsockname()[1], tmp_path / "key")

        def answer() -> None:
            with listening.accept()[0] as client:
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(DeviceError, match=r"no SSH connection: .*is an SSH server there"):
            ssh.connect(unit, SHORT)
        thread.join()


def test_a_server_that_shuts_this_machine_out_is_asked_after_growing_pauses(
    proxy: BreakableProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = trusted(unit_at(proxy.port, tmp_path / "key"))
    monkeypatch.setattr(ssh_backoff, "FIRST_PAUSE_S", 0.02)
    pauses: list[float] = []
    told: list[str] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    proxy.farewells = [b"", b"Not allowed at this time\r\n", b"SSH-2.0-OpenSSH_9.9\r\n", b""]
    transports.connect(unit, patience=transports.Patience(sleep, told.append)).close()
    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16], abs=0.015)
    assert "saying 'Not allowed at this time'; is an SSH server there" in told[1]

    monkeypatch.setattr(ssh_backoff, "PATIENCE_S", 0.1)
    proxy.farewells = [b""] * 9
    with pytest.raises(DeviceError, match=r"ended the connection before that began; .*\(PerSourcePenalties\)\?$"):
        transports.connect(unit, patience=transports.Patience(sleep, told.append))
    assert len(proxy.farewells) == 6
    assert len(told) == 6


def test_a_server_that_shuts_this_machine_out_is_not_hammered(proxy: BreakableProxy, tmp_path: Path) -> None:
    unit = unit_at(proxy.port, tmp_path / "key")
    proxy.farewells = [b""] * 9
    for _ in range(9):
        with pytest.raises(DeviceError, match=r"no SSH connection: it .*\(PerSourcePenalties\)"):
            transports.connect(unit)
    assert len(proxy.farewells) == 8


@pytest.mark.slow
def test_one_deadline_covers_all_stages_of_connecting(server: SshServer, tmp_path: Path) -> None:
    with BreakableProxy(server.port) as proxy:
        proxy.stall()
        began = time.monotonic()
        with pytest.raises(DeadlineError, match=r"no connection to .* within 0.3 s"):
            ssh.connect(unit_at(proxy.port, tmp_path / "key"), SshTimeouts(connect_s=0.3))
        assert time.monotonic() - began < DEADLINE_S


@pytest.fixture
def proxy(server: SshServer) -> Iterator[BreakableProxy]:
    with BreakableProxy(server.port) as running:
        yield running


@pytest.fixture
def behind(proxy: BreakableProxy, tmp_path: Path) -> Unit:
    """The board, reached through the proxy."""
    return trusted(unit_at(proxy.port, tmp_path / "key"))


@pytest.mark.slow
def test_a_connection_cut_while_a_program_runs_is_a_lost_device(behind: Unit, proxy: BreakableProxy) -> None:
    opened = transports.connect(behind)
    process = opened.start(["sh", "-c", "echo ready; cat"])
    assert process.read_line(DEADLINE_S) == "ready"
    proxy.cut()
    with pytest.raises(DeviceLostError, match="board: the SSH connection broke"):
        process.read_line(DEADLINE_S)
    with pytest.raises(DeviceLostError, match="board: the SSH connection broke"):
        opened.run(["true"], DEADLINE_S)
    opened.close()


@pytest.mark.slow
def test_a_connection_cut_while_files_are_sent_is_a_lost_device(
    behind: Unit, proxy: BreakableProxy, server: SshServer, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(8_000_000))
    opened = transports.connect(behind)
    opened.run(["true"], DEADLINE_S)
    proxy.cut_after(2_000_000)
    with pytest.raises(DeviceLostError):
        opened.push({"large": tmp_path / "large"})
    opened.close()
    assert not (server.home / ".farm-unit/large").exists()
    again = transports.connect(behind)
    assert again.push({"large": tmp_path / "large"}) == ["large"]
    again.close()


@pytest.mark.slow
def test_a_half_open_connection_is_noticed(behind: Unit, proxy: BreakableProxy) -> None:
    opened = ssh.connect(behind, SHORT)
    process = opened.start(["sh", "-c", "echo ready; cat"])
    assert process.read_line(DEADLINE_S) == "ready"
    time.sleep(2 * SHORT.dead_s)
    process.write_line("a silent link on which somebody answers is kept")
    assert process.read_line(DEADLINE_S).startswith("a silent link")
    proxy.stall()
    with pytest.raises(DeviceLostError, match=r"board: the SSH connection is dead: nothing was heard for \d+ s"):
        process.read_line(DEADLINE_S)
    opened.close()


@pytest.mark.slow
def test_a_half_open_connection_is_noticed_while_files_are_sent(
    behind: Unit, proxy: BreakableProxy, tmp_path: Path
) -> None:
    (tmp_path / "large").write_bytes(bytes(30_000_000))
    opened = ssh.connect(behind, SHORT)
    opened.run(["true"], DEADLINE_S)
    proxy.stall()
    with pytest.raises(DeviceLostError, match="nothing was heard"):
        opened.push({"large": tmp_path / "large"})
    opened.close()


def test_a_server_at_its_session_limit_is_an_error_with_what_to_do(server: SshServer, board: Unit) -> None:
    server.max_sessions = 1
    opened = transports.connect(board)
    process = opened.start(["cat"])
    with pytest.raises(DeviceError, match=r"refuses another session .*MaxSessions") as refused:
        opened.run(["true"], DEADLINE_S)
    assert refused.value.kind == "session-limit"
    assert process.close() == 0
    opened.close()


@pytest.mark.slow
def test_a_unit_is_reached_over_a_jump_host(server: SshServer, key: paramiko.PKey, tmp_path: Path, home: Path) -> None:
    with SshServer(tmp_path / "jump", key) as jump:
        (home / ".ssh/config").write_text(f"Host 127.0.0.1\n  IdentityFile {tmp_path / 'key'}\n")
        unit = unit_at(server.port, tmp_path / "key", jump=f"me@127.0.0.1:{jump.port}")
        with pytest.raises(DeviceError, match=rf"\[127.0.0.1\]:{jump.port} shows the host key"):
            transports.connect(unit)
        opened = transports.connect(trusted(unit))
        assert run_shell(opened, "echo there").stdout == b"there\n"
        assert len(jump.connections) > 0
        opened.close()
        with pytest.raises(DeviceError, match="the jump host cannot reach it"):
            transports.connect(dataclasses.replace(unit, port=free_port()))


def test_a_jump_host_that_is_cut_is_a_lost_device(
    server: SshServer, key: paramiko.PKey, tmp_path: Path, home: Path
) -> None:
    with SshServer(tmp_path / "jump", key) as jump:
        (home / ".ssh/config").write_text(f"Host 127.0.0.1\n  IdentityFile {tmp_path / 'key'}\n")
        opened = transports.connect(trusted(unit_at(server.port, tmp_path / "key", jump=f"127.0.0.1:{jump.port}")))
        process = opened.start(["cat"])
        jump.cut()
        with pytest.raises(DeviceLostError):
            process.read_line(DEADLINE_S)
        opened.close()


def test_the_users_ssh_configuration_is_honoured(
    server: SshServer, key: paramiko.PKey, tmp_path: Path, home: Path
) -> None:
    hosts = home / "trusted hosts"
    (home / ".ssh/more").write_text("Host lab-board\n  ConnectTimeout 7\n")
    (home / ".ssh/config").write_text(
        f"Include {home}/.ssh/more\nHost lab-board\n  HostName 127.0.0.1\n  Port {server.port}\n  User somebody\n"
        f'  IdentityFile {tmp_path / "key"}\n  UserKnownHostsFile "{hosts}"\n'
    )
    unit = Unit(name="b", transport="ssh", soc="s", model="m", abis=("arm64",), address="lab-board")
    transports.connect(trusted(unit)).close()
    assert hosts.read_text().startswith(f"[127.0.0.1]:{server.port} ")
    assert not (home / ".ssh/known_hosts").exists()


def test_a_folder_that_cannot_be_made_is_an_error(board: Unit) -> None:
    opened = transports.connect(dataclasses.replace(board, folder="/dev/null/unit"))
    with pytest.raises(DeviceError, match=r"board: true: cannot be started: .*/dev/null"):
        opened.run(["true"], DEADLINE_S)
    opened.close()


@pytest.mark.slow
def test_a_full_disk_is_an_error_that_says_so(board: Unit, small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(3_000_000))
    (tmp_path / "small").write_bytes(b"small")
    opened = transports.connect(dataclasses.replace(board, folder=str(small_disk / "unit")))
    text = r"board: \S+/disk/unit: no space left: 3.0 MB needed, 1.0 MB free; make room there"
    with pytest.raises(DeviceError, match=text):
        opened.push({"large": tmp_path / "large", "small": tmp_path / "small"})
    assert run_shell(opened, "ls -A").stdout == b""
    assert opened.push({"small": tmp_path / "small"})
    opened.close()


@pytest.mark.slow
def test_a_batch_may_need_many_command_lines(board: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("farm.transport.posix.PosixTransport.max_command_bytes", 4000)
    files = {f"{'long' * 20}/{index % 50}/{index}": tmp_path / f"{index}" for index in range(100)}
    for local in files.values():
        local.write_bytes(local.name.encode())
    opened = transports.connect(board)
    run_shell(opened, 'for i in 0 1 2 3 4 5 6 7 8 9; do mkdir -p "$1/$i"; done', "long" * 20)
    assert opened.push(files) == list(files)
    assert opened.push(files) == []
    assert run_shell(opened, "ls -A").stdout.decode() == f"{'long' * 20}\n"
    with pytest.raises(DeviceError, match="its arguments exceed 4000 bytes"):
        opened.run(["echo", "x" * 4000], DEADLINE_S)
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_work_in_every_shell(
    board: Unit, server: SshServer, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = shell_environment(shell, tmp_path / "programs")
    for name in ("setsid", "tar", "rm", "yes"):
        if shell != "sh":
            program = shutil.which("busybox" if shell == "busybox" else "toybox")
            assert program
            (tmp_path / "programs" / name).unlink(missing_ok=True)
            (tmp_path / "programs" / name).symlink_to(program)
    monkeypatch.setenv("PATH", environment["PATH"])
    server.shell = shutil.which("sh") or ""
    opened = transports.connect(board)
    assert run_shell(opened, "cat; kill -SEGV $$").exit_status == 139
    assert opened.run(["./missing"], DEADLINE_S).exit_status == 127
    files = {name: tmp_path / f"{index}" for index, name in enumerate(["one", *(f"a/{odd}" for odd in ODD_NAMES)])}
    for local in files.values():
        local.write_bytes(local.name.encode())
        local.chmod(0o755)
    assert opened.push(files) == list(files)
    assert opened.push(files) == []
    for remote, local in files.items():
        opened.pull(remote, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == local.read_bytes()
    process = opened.start(["sh", "-c", "sleep 1000 & echo $!; wait"])
    process_id = int(process.read_line(DEADLINE_S))
    with pytest.raises(DeadlineError):
        process.read_line(0.1)
    wait_until_ended(process_id)
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("login_shell", ["fish", "tcsh", "zsh", "bash"])
def test_any_login_shell_will_do(board: Unit, server: SshServer, login_shell: str, tmp_path: Path) -> None:
    program = shutil.which(login_shell)
    require(login_shell, "" if program else f"no {login_shell} on this machine")
    server.shell = program or ""
    opened = transports.connect(board)
    arguments = ["it's", "a\nb!", "\\n$HOME `id`", "!!", "%s\\0047", "é", ""]
    expected = "".join(f"<{argument}>" for argument in arguments)
    assert run_shell(opened, 'printf "<%s>" "$@"', *arguments).stdout.decode() == expected
    assert run_shell(opened, "cat; kill -SEGV $$").exit_status == 139
    files = {name: tmp_path / f"{index}" for index, name in enumerate(["one", *(f"a/{odd}" for odd in ODD_NAMES)])}
    for local in files.values():
        local.write_bytes(local.name.encode())
    assert opened.push(files) == list(files)
    assert opened.push(files) == []
    process = opened.start(["sh", "-c", "sleep 1000 & echo $!; wait"])
    process_id = int(process.read_line(DEADLINE_S))
    with pytest.raises(DeadlineError):
        process.read_line(0.1)
    wait_until_ended(process_id)
    with pytest.raises(DeviceError, match=r"board: true: cannot be started: .*/dev/null"):
        transports.connect(dataclasses.replace(board, folder="/dev/null/unit")).run(["true"], DEADLINE_S)
    opened.close()


@pytest.mark.slow
def test_programs_are_killed_even_at_a_real_sshds_session_limit(
    tmp_path: Path, key: paramiko.PKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.transport.program.GRACE_S", 0.1)
    public = f"{key.get_name()} {key.get_base64()}\n"
    with running_sshd(tmp_path / "sshd", public, "MaxSessions=1") as (port, host_key):
        unit = trusted(unit_at(port, tmp_path / "key"))
        assert ssh.host_key_of(unit).key in host_key
        opened = transports.connect(unit)
        process = opened.start(["sh", "-c", "echo $$; sleep 1000"])
        process_id = int(process.read_line(DEADLINE_S))
        with pytest.raises(DeviceError, match="refuses another session"):
            opened.run(["true"], DEADLINE_S)
        process.close()
        opened.close()
        wait_until_ended(process_id)


def test_a_configuration_that_cannot_be_used_is_refused(board: Unit, home: Path) -> None:
    config = home / ".ssh/config"
    for text, problem in [
        ("Host *\n  ProxyCommand nc %h %p\n", "ProxyCommand is not supported; use ProxyJump"),
        ("Host 127.0.0.1\n  ProxyJump a\nHost a\n  ProxyJump b\nHost b\n  ProxyJump a\n", "more than 8 jump hosts"),
        ("Host *\n  Port many\n", "board: ssh -G 127.0.0.1: .*many"),
        ("Host *\n  ProxyJump @\n", "board: ssh -G 127.0.0.1: "),
        (f"Include {config}\n", "board: ssh -G 127.0.0.1: .*recursive"),
    ]:
        config.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            transports.connect(dataclasses.replace(board, port=None))
