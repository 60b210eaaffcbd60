"""What an emulated phone is made of, without a connection: faults, path mapping, thermal model, packets."""

import asyncio
import contextlib
import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.condition import linux_state
from farm.emulation import thermal
from farm.emulation.cpu_limit import limit_cpu
from farm.emulation.faults import FAULTS, NEEDED_KEYS, Fault, FaultInjector, read_size, read_time
from farm.emulation.filesystem import OutputPathMapper, make_tree, map_command, map_path
from farm.emulation.packets import HEADER, MAX_PAYLOAD_BYTES, Command, PacketError, PacketHeader, encode
from farm.emulation.processes import descendants
from farm.emulation.shell import ShellRequest, StdioMode
from farm.emulation.socs import SOCS, Soc, find_soc
from farm.emulation.state import PhoneState
from farm.emulation.thermal import AMBIENT_C, CLOCK_CAPS, ThermalState
from farm.soc import soc_key
from runtime.errors import ConfigError

ROOT = Path("/tmp/phone/root")


@pytest.mark.parametrize(
    ("command", "mapped"),
    [
        ("cat /proc/loadavg", "cat R/proc/loadavg"),
        ("cd /data/local/tmp/farm && exec ./farmrt serve", "cd R/data/local/tmp/farm && exec ./farmrt serve"),
        ("cat </sys/x >'/sdcard/a b'", "cat <R/sys/x >'R/sdcard/a b'"),
        ("LD_LIBRARY_PATH=/vendor/lib64:/system/lib64 x", "LD_LIBRARY_PATH=R/vendor/lib64:R/system/lib64 x"),
        ('ls "/data"', 'ls "R/data"'),
        ("(cd /data; ls)|cat", "(cd R/data; ls)|cat"),
    ],
)
def test_device_paths_in_a_command_are_mapped_into_the_root(command: str, mapped: str) -> None:
    assert map_command(command, ROOT) == mapped.replace("R/", f"{ROOT}/")


@pytest.mark.parametrize(
    "command", ["ls /datax /data.old /", "cat /proc/self/x /dev/null", "ls ./data a/data $x/data ${x}/data"]
)
def test_other_paths_are_left_unchanged(command: str) -> None:
    assert map_command(command, ROOT) == command


@pytest.mark.parametrize("path", ["/data/x", "data/x", "/data/../data/./x", "/../../data/x", "//data//x"])
def test_paths_of_files_stay_in_the_root(path: str) -> None:
    assert map_path(path, ROOT) == ROOT / "data/x"


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([b"/", b"/tmp", b"/tmp/phone/root", b"/data", b"\n", b"/tmp/phone/roo", b"x"])), st.data()
)
def test_output_never_shows_the_root_however_it_is_cut(words: list[bytes], data: st.DataObject) -> None:
    text, output, said = b"".join(words), OutputPathMapper(ROOT), b""
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        said += output.feed(rest[:size])
        rest = rest[size:]
    said += output.end()
    assert said == re.sub(b"/tmp/phone/root/?", b"/", text)


def test_a_line_of_output_is_passed_on_at_once() -> None:
    output = OutputPathMapper(ROOT)
    assert output.feed(b"/tmp/phone/root/data\n") == b"/data\n"
    assert output.feed(b"is /tm") == b"is "
    assert output.feed(b"p\n") == b"/tmp\n"


def test_every_fault_can_be_named_alone_and_with_each_of_its_keys() -> None:
    for name, kind in FAULTS.items():
        if name not in NEEDED_KEYS:
            assert dict(Fault.parse(name).values) == dict(kind.defaults)
    full = Fault.parse(r"property:name=ro.product.model,value=a\x1b[31m,b,length=1K")
    assert full.values == {"name": "ro.product.model", "value": "a\x1b[31m,b", "length": 1024}


def test_a_triggers_keys_are_parsed() -> None:
    fault = Fault.parse("disconnect:at=push,on=model[.]data,bytes=1.5MB,after=500ms,times=2,away=2s")
    assert (fault.at, fault.size_bytes, fault.after_s, fault.times) == ("push", 1536 * 1024, 0.5, 2)
    assert fault.values["away"] == 2.0
    assert fault.matches("push", "/data/model.data")
    assert not fault.matches("pull", "/data/model.data")
    assert not fault.matches("push", "/data/other")
    assert Fault.parse("reboot:every=5s").times is None
    assert Fault.parse("reboot").times == 1
    assert Fault.parse("exit:on=farmrt").times is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("disconect", "did you mean 'disconnect'?"),
        ("hot:tmp=3", "did you mean 'temp'?"),
        ("hot:temp=x", "could not convert"),
        ("hot:for=-1s", "cannot be negative"),
        ("disconnect:at=psuh", "not one of connect"),
        ("disconnect:on=[", "unterminated"),
        ("disconnect:bytes=1MB", "needs at= or on="),
        ("storage:free=much", "no size"),
        ("battery:charging=1", "neither yes nor no"),
        ("property:value=x", "needs name="),
        ("lacks", "needs programs="),
        ("hang:", ""),
    ],
)
def test_a_wrong_fault_is_told_in_one_line(text: str, reason: str) -> None:
    if not reason:
        assert Fault.parse(text).name == "hang"
        return
    with pytest.raises(ConfigError, match=r"^--fault ") as caught:
        Fault.parse(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_and_times_are_parsed() -> None:
    assert [read_size(text) for text in ("0", "64K", "1KiB", "1.5mb", "2G")] == [0, 65536, 1024, 1572864, 2 * 1024**3]
    assert [read_time(text) for text in ("500ms", "-2m", "+1h", "3")] == [0.5, -120, 3600, 3]


@pytest.mark.slow
@given(st.binary(min_size=1, max_size=200), st.integers(0, 250), st.integers(1, 50))
def test_altering_flips_one_bit_and_truncating_cuts_wherever_the_pieces_end(
    content: bytes, offset: int, piece: int
) -> None:
    board = FaultInjector(
        [Fault.parse(f"alter:at=pull,bytes={offset}"), Fault.parse(f"truncate:at=push,bytes={offset}")]
    )
    pieces = [content[start : start + piece] for start in range(0, len(content), piece)]
    with board.monitor("pull", "/x", lambda _: None) as pull, board.monitor("push", "/x", lambda _: None) as push:
        altered, cut = b"".join(map(pull.transform, pieces)), b"".join(map(push.transform, pieces))
    assert cut == content[:offset]
    differing = [index for index, pair in enumerate(zip(content, altered, strict=True)) if pair[0] != pair[1]]
    assert differing == ([offset] if offset < len(content) else [])


def test_a_fault_happens_as_often_as_times_says() -> None:
    happened: list[Fault] = []
    board = FaultInjector([Fault.parse("exit:on=farmrt,times=2"), Fault.parse("disconnect:at=pull,bytes=10")])
    for command in ("./farmrt run", "ls", "./farmrt run", "./farmrt run"):
        with board.monitor("shell", command, happened.append):
            pass
    assert [fault.name for fault in happened] == ["exit", "exit"]
    with board.monitor("pull", "/x", happened.append) as watch:
        watch.transform(b"123456789")
        assert len(happened) == 2
        watch.transform(b"0")
    assert happened[-1].name == "disconnect"


def test_load_heats_and_rest_cools() -> None:
    idle = ThermalState()
    assert idle.after(3600, 0.0, 8).chip_c == pytest.approx(idle.chip_c, abs=0.5)
    loaded = idle
    for _ in range(600):
        loaded = loaded.after(1.0, 1.0, 8)
    assert loaded.chip_c > 85 > loaded.skin_c > 42
    assert loaded.status >= 2
    assert loaded.clock_cap(loaded.status) < 0.8
    assert loaded.load_average == pytest.approx(8, rel=0.01)
    rested = loaded.after(3600, 0.0, 8)
    assert (rested.status, rested.clock_cap(rested.status)) == (0, 1.0)


@pytest.mark.slow
@given(st.floats(0, 1), st.floats(0, 1e4), st.floats(AMBIENT_C, 100))
def test_temperatures_stay_sane_and_do_not_depend_on_the_step(load: float, elapsed_s: float, start_c: float) -> None:
    body = ThermalState.at(start_c)
    whole, half = body.after(elapsed_s, load, 8), body.after(elapsed_s / 2, load, 8).after(elapsed_s / 2, load, 8)
    assert half.skin_c == pytest.approx(whole.skin_c, abs=1e-6)
    for celsius in (dataclasses.astuple(whole))[:3]:
        assert AMBIENT_C - 1 <= celsius <= max(start_c, 100) + 50
    assert 0 <= whole.status <= 6


def test_governors_choose_clocks_within_the_cap() -> None:
    assert thermal.clock("performance", 300, 2800, 0.0, 1.0) == 2800
    assert thermal.clock("performance", 300, 2800, 1.0, 0.5) == 1400
    assert thermal.clock("powersave", 300, 2800, 1.0, 1.0) == 300
    assert 300 < thermal.clock("schedutil", 300, 2800, 0.4, 1.0) < 2800
    assert thermal.clock("schedutil", 300, 2800, 1.0, 0.01) == 300


@given(st.sampled_from(Command), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=300))
def test_packets_survive_encoding_and_decoding(command: Command, arg0: int, arg1: int, payload: bytes) -> None:
    packet = encode(command, arg0, arg1, payload)
    header = PacketHeader.decode(packet[: HEADER.size])
    header.check(packet[HEADER.size :])
    assert (header.command, header.arg0, header.arg1) == (command, arg0, arg1)
    if any(payload):  # a sum of 0 stands for none
        with pytest.raises(PacketError):
            header.check(bytes([payload[0] ^ 1]) + payload[1:])


@pytest.mark.parametrize(
    "words",
    [
        (0x12345678, 0, 0, 0, 0, 0x12345678 ^ 0xFFFFFFFF),
        (Command.OKAY, 0, 0, 0, 0, 0),
        (Command.WRTE, 0, 0, MAX_PAYLOAD_BYTES + 1, 0, Command.WRTE ^ 0xFFFFFFFF),
    ],
)
def test_bytes_that_are_no_packet_are_refused(words: tuple[int, ...]) -> None:
    with pytest.raises(PacketError):
        PacketHeader.decode(HEADER.pack(*words))


def test_streams_of_services_are_connected_as_on_phones() -> None:
    def wiring(name: str, modern: bool = True) -> tuple[StdioMode, bool] | None:
        asked = ShellRequest.parse(name, modern)
        return (asked.stdio, asked.uses_protocol_2) if asked else None

    assert wiring("shell,v2,raw:ls") == (StdioMode.PIPES, True)
    assert wiring("shell,v2,TERM=xterm,pty:ls") == (StdioMode.TERMINAL, True)
    assert wiring("shell,v2,TERM=xterm,pty:") == (StdioMode.TERMINAL, True)
    assert wiring("shell:ls") == (StdioMode.RAW_TERMINAL, False)
    assert wiring("shell:ls", modern=False) == (StdioMode.TERMINAL, False)
    assert wiring("exec:ls") == (StdioMode.JOINED_PIPES, False)
    assert wiring("shell,v2,raw:ls", modern=False) is None
    assert wiring("jdwp:1") is None


@pytest.mark.parametrize("soc", SOCS.values(), ids=list(SOCS))
def test_each_emulated_soc_is_recognised_by_its_key(soc: object) -> None:
    found = find_soc(str(getattr(soc, "key")))  # noqa: B009
    assert soc_key([found.soc_model]) == found.key
    assert soc_key([found.platform, found.compatible[0], found.hardware]) == found.key


def test_an_unknown_soc_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sdm845'"):
        find_soc("sdm8450")
    assert find_soc("SDM855") is find_soc("sm8150")


PARENT = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True).pid, flush=True)
time.sleep(60)
"""


@contextmanager
def family() -> Iterator[tuple[int, int]]:
    """A process, and its child, which computes in a session of its own."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.pid, int(process.stdout.readline())
    finally:
        for each in psutil.Process(process.pid).children(recursive=True):
            each.kill()
        process.kill()
        process.communicate()


def test_descendants_are_found_beyond_their_session() -> None:
    with family() as (parent, child):
        assert {each.number: each.leader for each in descendants({parent})} == {parent: parent, child: parent}
    assert descendants(()) == []


@pytest.mark.slow
def test_a_slow_phones_processes_get_at_most_their_share() -> None:
    async def hold(child: int) -> float:
        task = asyncio.create_task(limit_cpu(lambda: [child], lambda: 0.25))
        await asyncio.sleep(0.2)
        before, began_s = psutil.Process(child).cpu_times().user, time.monotonic()
        await asyncio.sleep(1.5)
        share = (psutil.Process(child).cpu_times().user - before) / (time.monotonic() - began_s)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return share

    with family() as (_, child):
        assert asyncio.run(hold(child)) < 0.5
        assert psutil.Process(child).status() != psutil.STATUS_STOPPED, "it goes on when nobody holds it any more"


def test_speed_follows_throttling_and_faults(tmp_path: Path) -> None:
    folder, root = tmp_path / "state", tmp_path / "root"
    state = PhoneState(folder, root, find_soc("sdm845"), rooted=False)
    assert state.relative_speed(0.0) == 1.0
    state.apply_fault(Fault.parse("throttle:status=3,for=10s"), 0.0)
    assert state.relative_speed(1.0) == CLOCK_CAPS[3]
    state.reset()
    state.apply_fault(Fault.parse("slow:factor=2,for=10s"), 0.0)
    assert (state.relative_speed(1.0), state.relative_speed(11.0)) == (0.5, 1.0)


@pytest.mark.parametrize("factor", ["0", "0.5", "1000", "nan"])
def test_an_impossible_slowdown_factor_is_refused(factor: str) -> None:
    with pytest.raises(ConfigError, match="factor"):
        Fault.parse(f"slow:factor={factor}")


@pytest.mark.parametrize("soc", SOCS.values(), ids=SOCS)
def test_each_chip_shows_heat_and_clocks_where_its_makers_kernels_do(tmp_path: Path, soc: Soc) -> None:
    make_tree(tmp_path, soc, 14, False, {})
    PhoneState(tmp_path / "state", tmp_path, soc, False)
    files = {str(path): path.read_text().strip() for path in (tmp_path / "sys").rglob("*") if path.is_file()}
    state = linux_state.state_members(files)
    assert soc.gpu.min_hz <= state["gpu_clock_mhz"] * 1e6 <= soc.gpu.max_hz
    assert len(state["clock_mhz"]) == len(soc.cores) and state["temperature_c"] > 20
