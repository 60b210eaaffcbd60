"""An emulated phone over its own protocol: handshake, commands, files, faults, and what is left behind."""

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from farm.emulation import EmulatedPhone, PhoneSettings, packets
from farm.emulation.packets import Command
from farm.emulation.phone_thread import EventLoopThread
from farm.emulation.processes import phone_processes
from runtime.errors import ConfigError
from tests.conftest import require
from tests.farm.emulation.adb_client import AdbClient, CommandOutput, decode_output

pytestmark = pytest.mark.slow

WORD = struct.Struct("<4sI")
PATIENCE_S = 60.0
FOLDER = "/data/local/tmp"


@pytest.fixture
def phone() -> Iterator[EmulatedPhone]:
    with EmulatedPhone(PhoneSettings(model="MI 8")) as found:
        yield found


def shell(phone: EmulatedPhone, command: str, stdin: bytes = b"") -> CommandOutput:
    with AdbClient(phone.port) as peer:
        peer.connect()
        return peer.run(command, stdin)


def eventually(happened: Callable[[], bool]) -> None:
    """Waits until it is so; fails when that takes too long."""
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.02)


def ended(process: psutil.Process) -> bool:
    """Whether it runs no more; its new parent may take its time to bury it."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def sync_push(peer: AdbClient, path: str, content: bytes, mode: int = 0o100644) -> bytes:
    stream = peer.open("sync:")
    target = f"{path},{mode}".encode()
    pieces = [content[start : start + 65536] for start in range(0, len(content), 65536)]
    framed = b"".join(WORD.pack(b"DATA", len(piece)) + piece for piece in pieces)
    request = WORD.pack(b"SEND", len(target)) + target + framed + WORD.pack(b"DONE", 1_600_000_000)
    for start in range(0, len(request), 256 * 1024):
        stream.write(request[start : start + 256 * 1024])
    kind, size = WORD.unpack(stream.read(8))
    return kind + stream.read(size)


def sync_pull(peer: AdbClient, path: str) -> bytes:
    stream, name = peer.open("sync:"), path.encode()
    stream.write(WORD.pack(b"RECV", len(name)) + name)
    content = b""
    while True:
        kind, size = WORD.unpack(stream.read(8))
        if kind == b"DONE":
            return content
        if kind == b"FAIL":
            raise OSError(stream.read(size).decode())
        content += stream.read(size)


# Handshake


def test_the_banner_tells_of_the_phone(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        header, banner = peer.connect()
    assert (header.command, header.arg0, header.arg1) == (Command.CNXN, packets.VERSION, 1024**2)
    assert banner.startswith(b"device::ro.product.name=dipper;ro.product.model=MI 8;ro.product.device=dipper;features=")
    assert {b"shell_v2", b"stat_v2", b"ls_v2", b"sendrecv_v2"} <= set(banner.partition(b"features=")[2].split(b","))


def test_an_old_phone_has_no_features_small_packets_and_checksums() -> None:
    with EmulatedPhone(PhoneSettings(shell_v2=False)) as phone, AdbClient(phone.port) as peer:
        header, banner = peer.connect()
        assert (header.arg0, header.arg1) == (packets.VERSION_WITH_CHECKSUM, 4096)
        assert b"features" not in banner
        assert peer.open("exec:head -c 10000 /dev/zero | tr '\\0' x").read_all() == b"x" * 10000
        assert peer.checksummed
        assert peer.open("shell:echo out; echo err >&2; exit 3").read_all() == b"out\r\nerr\r\n"


def test_new_versions_need_no_checksum(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        peer.run("echo x")
        assert not peer.checksummed


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.0\r\n\r\n        ", bytes(24), os.urandom(4096)])
def test_another_protocol_ends_only_its_connection(phone: EmulatedPhone, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", phone.port), PATIENCE_S) as peer:
        peer.sendall(sent)
        with contextlib.suppress(ConnectionError):  # what was not read makes it a reset
            assert peer.recv(100) == b""
    assert shell(phone, "echo alive").stdout == b"alive\n"


def test_an_unknown_service_is_refused(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        peer.send(Command.OPEN, 1, 0, b"framebuffer:\0")
        header, _ = peer.receive()
        assert (header.command, header.arg0, header.arg1) == (Command.CLSE, 0, 1)


# Commands


def test_a_command_has_two_outputs_and_an_exit_status(phone: EmulatedPhone) -> None:
    assert shell(phone, "echo out; echo err >&2; exit 7") == CommandOutput(b"out\n", b"err\n", 7)
    assert shell(phone, "kill -9 $$").exit_status == 137
    assert shell(phone, "cat", b"x" * 300_000).stdout == b"x" * 300_000


def test_streams_of_exec_and_terminals(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        assert peer.open("exec:printf 'a\\nb'; echo err >&2").read_all() == b"a\nberr\n"
        assert peer.open("shell:printf 'a\\nb'; echo err >&2").read_all() == b"a\nberr\n"
        said = decode_output(peer.open("shell,v2,TERM=xterm,pty:tty; echo $TERM; exit 5").read_all())
        assert re.fullmatch(rb"/dev/pts/\d+\r\nxterm\r\n", said.stdout)
        assert said.exit_status == 5


def test_device_paths_are_mapped_in_commands_and_in_their_output(phone: EmulatedPhone) -> None:
    said = shell(phone, f"cd {FOLDER} && pwd && echo hello >/sdcard/x && ls -d /sdcard/x && cat /data/none")
    assert said == CommandOutput(b"/data/local/tmp\n/sdcard/x\n", said.stderr, 1)
    assert b"/data/none" in said.stderr
    assert str(phone.root).encode() not in said.stderr
    assert (phone.root / "storage/emulated/0/x").read_text() == "hello\n"


def test_commands_find_androids_programs_and_properties(phone: EmulatedPhone) -> None:
    said = shell(phone, "getprop ro.product.cpu.abilist; getprop none fallback; getprop; id -u; command -v python3")
    lines = said.stdout.decode().splitlines()
    assert lines[:2] == ["host", "fallback"]
    assert "[ro.board.platform]: [sdm845]" in lines
    assert lines[-1] == "2000"
    assert b"level: 83" in shell(phone, "dumpsys battery").stdout
    assert b"Thermal Status: 0" in shell(phone, "dumpsys thermalservice").stdout
    assert b"state=ON" in shell(phone, "dumpsys power").stdout
    assert shell(phone, "setprop debug.x 1 && getprop debug.x").stdout == b"1\n"
    assert shell(phone, "setprop ro.board.platform x").exit_status == 1
    assert shell(phone, "settings get global low_power; settings get global none").stdout == b"0\nnull\n"
    assert shell(phone, "cat /sys/class/kgsl/kgsl-3d0/gpuclk").stdout == b"257000000\n"


def test_only_a_rooted_phone_lets_governors_be_set(phone: EmulatedPhone) -> None:
    governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    assert shell(phone, f"echo performance >{governor}").exit_status != 0
    assert shell(phone, f"cat {governor}").stdout == b"schedutil\n"
    with EmulatedPhone(PhoneSettings(rooted=True)) as rooted:
        assert shell(rooted, f"echo performance >{governor} && cat {governor}; id -u").stdout == b"performance\n0\n"
        clock = rooted.root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
        eventually(lambda: clock.read_text() == "1766400\n")


def test_with_toybox_commands_run_in_androids_shell() -> None:
    require("toybox", "" if shutil.which("mksh") and shutil.which("toybox") else "mksh or toybox is not installed")
    with EmulatedPhone(PhoneSettings(toybox=True)) as phone:
        said = shell(phone, "echo $KSH_VERSION; readlink -f $(command -v sha256sum); getprop ro.board.platform")
    version, program, platform = said.stdout.splitlines()
    assert b"MIRBSD" in version
    assert program.endswith(b"/toybox")
    assert platform == b"sdm845"


def test_task_profiles_are_recorded_since_android_13(phone: EmulatedPhone) -> None:
    assert shell(phone, "settaskprofile $$ SCHED_SP_TOP_APP").exit_status == 0
    assert shell(phone, "settaskprofile $$ Unknown").exit_status == 1
    assert [record.split()[1:] for record in phone.recorded_calls("settaskprofile")] == [["SCHED_SP_TOP_APP"]]
    with EmulatedPhone(PhoneSettings(android=12)) as older:
        assert shell(older, "settaskprofile $$ SCHED_SP_TOP_APP").exit_status == 127


def test_closing_a_stream_hangs_up_its_command(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        stream = peer.open("shell,v2,raw:(sleep 100 & echo $!; wait)")
        child = psutil.Process(int(stream.read_until(b"\n")[5:]))
        stream.close()
        eventually(lambda: ended(child))


def test_losing_the_connection_hangs_up_its_commands(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        stream = peer.open("shell,v2,raw:echo $$; exec sleep 100")
        process = psutil.Process(int(stream.read_until(b"\n")[5:]))
    eventually(lambda: ended(process))


def test_what_was_detached_runs_on_until_the_phone_ends() -> None:
    with EmulatedPhone() as phone:
        said = shell(phone, "setsid sleep 100 </dev/null >/dev/null 2>&1 & echo $!")
        process = psutil.Process(int(said.stdout))
        folder = phone.root.parent
        assert process.is_running()
        assert [found.pid for found in phone_processes(folder)]
    assert ended(process)
    assert not list(phone_processes(folder))
    assert not folder.exists()


def test_a_slow_reader_slows_its_writer_down(phone: EmulatedPhone) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        stream = peer.open("shell,v2,raw:dd if=/dev/zero bs=65536 count=100 2>/dev/null; echo done >/data/done")
        time.sleep(0.2)
        assert not (phone.root / "data/done").exists()
        assert len(decode_output(stream.read_all()).stdout) == 65536 * 100
        assert (phone.root / "data/done").exists()


# Files


def test_files_go_there_and_back(phone: EmulatedPhone) -> None:
    content = os.urandom(300_001)
    with AdbClient(phone.port) as peer:
        peer.connect()
        assert sync_push(peer, f"{FOLDER}/new/a b", content, 0o100755) == b"OKAY"
        assert sync_pull(peer, f"{FOLDER}/new/a b") == content
        assert sync_push(peer, f"{FOLDER}/empty", b"") == b"OKAY"
        assert sync_pull(peer, f"{FOLDER}/empty") == b""
        with pytest.raises(OSError, match="No such file"):
            sync_pull(peer, "/data/none")
        assert sync_push(peer, FOLDER, b"x").startswith(b"FAILIs a directory")
    pushed = phone.root / "data/local/tmp/new/a b"
    assert pushed.stat().st_mode & 0o777 == 0o777
    assert pushed.stat().st_mtime == 1_600_000_000


def test_attributes_are_told_in_both_request_versions(phone: EmulatedPhone) -> None:
    file = phone.root / "data/x"
    file.write_bytes(b"12345")
    (phone.root / "data/link").symlink_to("x")

    def ask(request: bytes, path: bytes, size_bytes: int) -> bytes:
        stream = peer.open("sync:")
        stream.write(WORD.pack(request, len(path)) + path)
        return stream.read(size_bytes)

    with AdbClient(phone.port) as peer:
        peer.connect()
        mode, size, modified = struct.unpack("<3I", ask(b"STAT", b"/data/x", 16)[4:])
        assert (mode, size, modified) == (file.stat().st_mode, 5, int(file.stat().st_mtime))
        assert struct.unpack("<3I", ask(b"STAT", b"/data/none", 16)[4:]) == (0, 0, 0)
        followed, link, none = (
            struct.unpack("<IQQIIIIQqqq", ask(request, path, 72)[4:])
            for request, path in ((b"STA2", b"/data/link"), (b"LST2", b"/data/link"), (b"STA2", b"/data/none"))
        )
        assert (followed[0], followed[3], followed[7]) == (0, file.stat().st_mode, 5)
        assert link[3] & 0o170000 == 0o120000
        assert none[0] == 2


@pytest.mark.parametrize(("request_name", "entry"), [(b"LIST", "<4s3I"), (b"LIS2", "<4sIQQIIIIQqqq")])
def test_folders_are_listed_in_both_request_versions(phone: EmulatedPhone, request_name: bytes, entry: str) -> None:
    names = {"a", "b c", "ü"}
    for name in names:
        (phone.root / "data/local/tmp" / name).write_text(name)
    layout, found, path = struct.Struct(f"{entry}I"), set(), FOLDER.encode()
    with AdbClient(phone.port) as peer:
        peer.connect()
        stream = peer.open("sync:")
        stream.write(WORD.pack(request_name, len(path)) + path)
        while (fields := layout.unpack(stream.read(layout.size)))[0] != b"DONE":
            found.add(stream.read(fields[-1]).decode())
    assert found == names


@pytest.mark.parametrize(
    "request_bytes",
    [
        WORD.pack(b"RECV", 5000),
        WORD.pack(b"WHAT", 1) + b"/",
        WORD.pack(b"SND2", 5) + b"/data" + struct.pack("<4sII", b"SND2", 0o644, 1),
        WORD.pack(b"SEND", 11) + b"/data/x,420" + WORD.pack(b"DATA", 70000),
    ],
)
def test_a_request_that_cannot_be_served_fails_alone(phone: EmulatedPhone, request_bytes: bytes) -> None:
    with AdbClient(phone.port) as peer:
        peer.connect()
        stream = peer.open("sync:")
        stream.write(request_bytes)
        assert stream.read_all()[:4] == b"FAIL"
        assert peer.run("echo alive").stdout == b"alive\n"


# Faults


@pytest.mark.parametrize("fault", ["disconnect:at=push,bytes=100K", "reboot:at=push,bytes=100K,away=200ms"])
def test_the_link_breaks_in_the_middle_of_a_push_and_comes_back(phone: EmulatedPhone, fault: str) -> None:
    phone.inject(fault)
    with AdbClient(phone.port) as peer:
        peer.connect()
        with pytest.raises((EOFError, ConnectionError)):
            sync_push(peer, f"{FOLDER}/x", os.urandom(2_000_000))

    def pushed() -> bool:
        try:
            with AdbClient(phone.port) as peer:
                peer.connect()
                return sync_push(peer, f"{FOLDER}/x", b"again") == b"OKAY"
        except (EOFError, ConnectionError):
            return False

    eventually(pushed)


def test_a_loose_contact_breaks_again_and_again(phone: EmulatedPhone) -> None:
    phone.inject("disconnect:every=150ms")
    for _ in range(3):
        with AdbClient(phone.port) as peer:
            peer.connect()
            with pytest.raises((EOFError, ConnectionError)):
                peer.run("sleep 5")
    phone.clear_faults()
    assert shell(phone, "sleep 0.3; echo x").stdout == b"x\n"


def test_a_connection_is_refused_once(phone: EmulatedPhone) -> None:
    phone.inject("disconnect:at=connect")
    assert not answers(phone)
    assert answers(phone)


def test_output_arrives_altered(phone: EmulatedPhone) -> None:
    phone.inject("alter:at=shell,on=marked,bytes=2")
    assert shell(phone, "echo marked").stdout == b"maRked\n"
    assert shell(phone, "echo other").stdout == b"other\n"


def test_a_reboot_ends_processes_and_keeps_files(phone: EmulatedPhone) -> None:
    boot = shell(phone, f"echo kept >{FOLDER}/kept; cat /proc/sys/kernel/random/boot_id").stdout
    shell(phone, "setsid sleep 100 </dev/null >/dev/null 2>&1 &")
    phone.inject("reboot:away=300ms")
    with pytest.raises(ConnectionError):
        AdbClient(phone.port)
    assert not list(phone_processes(phone.root.parent))
    eventually(lambda: answers(phone))
    said = shell(phone, f"cat {FOLDER}/kept; cat /proc/sys/kernel/random/boot_id").stdout
    assert said.startswith(b"kept\n")
    assert not said.endswith(boot)


def answers(phone: EmulatedPhone) -> bool:
    try:
        return shell(phone, "echo x").stdout == b"x\n"
    except (EOFError, OSError):
        return False


def test_the_phones_reboot_program_reboots_it(phone: EmulatedPhone) -> None:
    boot_file = phone.root / "proc/sys/kernel/random/boot_id"
    boot = boot_file.read_text()
    with pytest.raises((EOFError, ConnectionError)):
        shell(phone, "reboot")
    assert boot_file.read_text() != boot


@pytest.mark.parametrize("fault", ["stall:on=sleep", "offline"])
def test_a_stalled_connection_stays_open_and_silent(phone: EmulatedPhone, fault: str) -> None:
    phone.inject(fault)
    with AdbClient(phone.port) as peer:
        peer.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            peer.connect()
            peer.run("sleep 0; echo x")
    phone.clear_faults()
    assert answers(phone)


def test_an_unauthorized_phone_asks_for_keys_until_its_owner_agrees(phone: EmulatedPhone) -> None:
    phone.inject("unauthorized")
    with AdbClient(phone.port) as peer:
        assert peer.connect()[0].command is Command.AUTH
        peer.send(Command.AUTH, packets.AUTH_SIGNATURE, 0, bytes(256))
        assert peer.receive()[0].command is Command.AUTH
        phone.clear_faults()
        assert peer.receive()[0].command is Command.CNXN
        assert peer.run("echo x").stdout == b"x\n"


def test_faults_of_commands_change_status_or_output(phone: EmulatedPhone) -> None:
    phone.inject("exit:on=first,status=139")
    assert shell(phone, "echo first; sleep 100").exit_status == 139
    phone.inject("exit:on=second,bytes=4,status=3")
    said = shell(phone, "echo second; sleep 100")
    assert (said.stdout, said.exit_status) == (b"second\n", 3)
    phone.inject("garbage:on=third,size=5000")
    said = shell(phone, "echo third")
    assert len(said.stdout) == 5006
    assert said.exit_status == 0
    phone.inject("flood:on=fourth,size=3MB")
    assert len(shell(phone, "echo fourth").stdout) > 3_000_000
    phone.inject("hang:on=fifth")
    with AdbClient(phone.port) as peer:
        peer.connect()
        stream = peer.open("shell,v2,raw:echo fifth")
        peer.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            stream.read_all()
    eventually(lambda: not list(phone_processes(phone.root.parent)))


def test_a_hanging_command_can_be_killed_from_another_stream(phone: EmulatedPhone) -> None:
    phone.inject("hang:on=marker,bytes=1")
    with AdbClient(phone.port) as peer, AdbClient(phone.port) as other:
        peer.connect()
        other.connect()
        stream = peer.open("shell,v2,raw:echo $$; exec sleep 100 # marker")
        session = int(stream.read_until(b"\n")[5:])
        eventually(lambda: psutil.Process(session).status() == psutil.STATUS_STOPPED)
        assert other.run(f"kill -9 -{session}").exit_status == 0
        assert decode_output(stream.read_all()).exit_status == 128 + signal.SIGKILL


def test_files_arrive_altered_or_short(phone: EmulatedPhone) -> None:
    content = os.urandom(200_000)
    phone.inject("alter:on=flipped,bytes=150000")
    phone.inject("truncate:on=short,bytes=1000")
    with AdbClient(phone.port) as peer:
        peer.connect()
        for name in ("flipped", "short", "whole"):
            assert sync_push(peer, f"{FOLDER}/{name}", content) == b"OKAY"
        flipped, short, whole = (
            (phone.root / "data/local/tmp" / name).read_bytes() for name in ("flipped", "short", "whole")
        )
        assert [index for index in range(200_000) if flipped[index] != content[index]] == [150_000]
        assert (short, whole) == (content[:1000], content)
        assert sync_pull(peer, f"{FOLDER}/flipped") == content  # flipped again on its way back


def test_storage_is_full_for_pushes_and_for_commands(phone: EmulatedPhone) -> None:
    phone.inject("storage:free=100K")
    with AdbClient(phone.port) as peer:
        peer.connect()
        assert sync_push(peer, f"{FOLDER}/small", bytes(50_000)) == b"OKAY"
        assert sync_push(peer, f"{FOLDER}/big", bytes(80_000)) == b"FAILNo space left on device"
        said = peer.run(f"cat >{FOLDER}/written; echo $?", bytes(200_000))
        assert said.stdout == b"1\n"
    assert (phone.root / "data/local/tmp/written").stat().st_size <= 102_400
    free = int(shell(phone, "df /data | tail -n 1").stdout.split()[3])
    assert free <= 50
    phone.clear_faults()
    assert shell(phone, f"head -c 200000 /dev/zero >{FOLDER}/written").exit_status == 0


def test_faults_of_the_phone_show_in_its_state(phone: EmulatedPhone) -> None:
    for fault in ("hot:temp=61,for=1h", "throttle:status=4", "battery:level=7,saver=yes", "clock:jump=-1h"):
        phone.inject(fault)
    said = shell(phone, "cat /sys/class/thermal/thermal_zone0/temp; dumpsys battery; dumpsys thermalservice").stdout
    assert said.startswith(b"61000\n")
    assert b"level: 7\n" in said
    assert b"USB powered: false" in said
    assert b"Thermal Status: 4" in said
    assert shell(phone, "settings get global low_power").stdout == b"1\n"
    assert int(shell(phone, "date +%s").stdout) < time.time() - 3590
    phone.clear_faults()
    assert int(shell(phone, "date +%s").stdout) > time.time() - 10
    assert int(shell(phone, "cat /sys/class/thermal/thermal_zone0/temp").stdout) < 33_000


def test_nothing_is_executed_in_a_folder_mounted_so(phone: EmulatedPhone) -> None:
    program = f"{FOLDER}/program"
    with AdbClient(phone.port) as peer:
        peer.connect()
        assert sync_push(peer, program, b"#!/bin/sh\necho ran\n", 0o100755) == b"OKAY"
    phone.inject("noexec")
    said = shell(phone, f"ls -l {program}; {program}")
    assert said.stdout.startswith(b"-rwx") and b"Permission denied" in said.stderr and said.exit_status == 126
    phone.clear_faults()
    assert shell(phone, program).stdout == b"ran\n"


def test_files_are_listed_and_refused(phone: EmulatedPhone) -> None:
    """Those that the phone goes on to write, too."""
    phone.inject("denied:files=^sys/class/thermal")
    (temperature,) = shell(phone, "ls /sys/class/thermal/thermal_zone0/temp").stdout.split()
    phone.inject("hot:temp=61")
    said = shell(phone, f"cat {temperature.decode()}; cat /sys/devices/system/cpu/online")
    assert said.stdout == b"0-7\n" and b"Permission denied" in said.stderr


def test_a_shell_lacks_programs_and_talks(phone: EmulatedPhone) -> None:
    phone.inject("lacks:programs=timeout,pgrep")
    said = shell(phone, "timeout 1 true; pgrep x; stat -c %n /data")
    assert said.stdout == b"/data\n" and said.stderr.count(b"not found") == 2
    phone.inject(r"banner:text=it's\n1")
    said = shell(phone, "echo x; exit 3")
    assert (said.stdout, said.stderr, said.exit_status) == (b"it's\n1\nx\n", b"it's\n1\n", 3)


def test_properties_are_missing_hostile_or_endless(phone: EmulatedPhone) -> None:
    phone.inject("property:name=ro.board.platform")
    phone.inject(r"property:name=ro.product.model,value=\x1b[31mred")
    phone.inject("property:name=ro.hardware,value=long,length=100K")
    assert shell(phone, "getprop ro.board.platform").stdout == b"\n"
    assert shell(phone, "getprop ro.product.model").stdout == b"\x1b[31mred\n"
    assert len(shell(phone, "getprop ro.hardware").stdout) == 102_401
    with AdbClient(phone.port) as peer:
        assert b"\x1b[31mred" in peer.connect()[1]


def test_work_heats_the_phone(phone: EmulatedPhone) -> None:
    zone = phone.root / "sys/class/thermal/thermal_zone0/temp"
    clock = phone.root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
    assert (int(zone.read_text()), int(clock.read_text())) == (31_000, 300_000)
    with AdbClient(phone.port) as peer:
        peer.connect()
        peer.open("shell,v2,raw:while :; do :; done")
        eventually(lambda: int(zone.read_text()) > 32_000 and int(clock.read_text()) > 300_000)
    eventually(lambda: int(clock.read_text()) == 300_000)


# Many, and nothing left


def test_many_phones_in_one_thread_are_cheap() -> None:
    before = threading.active_count()
    thread = EventLoopThread()
    phones = [EmulatedPhone(PhoneSettings(serial=f"S{number}"), thread=thread) for number in range(4)]
    try:
        for phone in phones:
            phone.__enter__()
        assert threading.active_count() == before + 1
        said = [shell(phone, "getprop ro.serialno").stdout for phone in phones]
        assert said == [f"S{number}\n".encode() for number in range(4)]
    finally:
        for phone in phones:
            phone.__exit__()
        thread.close()
    assert threading.active_count() == before


def test_wrong_settings_are_refused_and_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with EmulatedPhone() as phone:
        for settings, port, reason in (
            (PhoneSettings(soc="sdm854"), 0, "did you mean"),
            (PhoneSettings(android=99), 0, "--android 99"),
            (PhoneSettings(), phone.port, f"--port {phone.port}: Address already in use"),
        ):
            with pytest.raises(ConfigError, match=re.escape(reason)):
                EmulatedPhone(settings, port).__enter__()
    assert list(tmp_path.iterdir()) == []
