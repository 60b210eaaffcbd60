"""The contract of every transport: one suite, run against each of them.

A test module of a transport derives a class from TransportContract and gives it the fixture `transport`: an open
transport to a unit whose folder is empty, and whose processes are processes of this machine.
"""

import datetime
import io
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from farm.transport import base
from farm.transport.base import Transport
from runtime.errors import DeadlineError, DeviceError, DeviceLostError, JobError

ODD_NAMES = ["with space", "quo'te", 'dou"ble', "$HOME", "back\\slash", "new\nline", "-rf", "--", "*", "ü", "a;b&c|d"]
DEADLINE_S = 60.0


def run_shell(
    transport: Transport, script: str, *arguments: str, deadline_s: float = DEADLINE_S
) -> base.CompletedProgram:
    return transport.run(["sh", "-c", script, "sh", *arguments], deadline_s)


def is_running(process_id: int) -> bool:
    """Zombies that nobody reaps in a container count as ended."""
    try:
        return " Z " not in Path(f"/proc/{process_id}/stat").read_text()
    except FileNotFoundError:
        return False


def wait_until_ended(process_id: int) -> None:
    end = time.monotonic() + DEADLINE_S
    while is_running(process_id):
        assert time.monotonic() < end, f"process {process_id} still runs"
        time.sleep(0.01)


class TransportContract:
    @pytest.mark.parametrize("status", [0, 1, 42, 255])
    def test_exit_status_is_the_programs(self, transport: Transport, status: int) -> None:
        assert run_shell(transport, f"exit {status}").exit_status == status

    def test_death_by_signal_is_128_and_its_number(self, transport: Transport) -> None:
        assert run_shell(transport, "kill -SEGV $$").exit_status == 139

    def test_output_that_looks_like_an_exit_status_is_output(self, transport: Transport) -> None:
        completed = run_shell(transport, "echo 0; echo $?; echo 'exit status 0'; exit 3")
        assert completed.exit_status == 3

    def test_stdout_and_stderr_are_separate_and_exact(self, transport: Transport) -> None:
        completed = run_shell(transport, r"printf 'out\000\r\n\377'; printf 'err' >&2")
        assert completed.stdout == b"out\0\r\n\xff"
        assert completed.stderr == b"err"

    def test_missing_program_is_127(self, transport: Transport) -> None:
        for name in ("no-such-program", "./no-such-program"):
            completed = transport.run([name], DEADLINE_S)
            assert completed.exit_status == base.NOT_FOUND
            assert name.encode() in completed.stderr

    def test_file_that_is_not_executable_is_126(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"data")
        transport.push({"data": tmp_path / "data"})
        assert transport.run(["./data"], DEADLINE_S).exit_status == base.NOT_EXECUTABLE

    @pytest.mark.parametrize("argument", [*ODD_NAMES, ""])
    def test_arguments_arrive_as_they_are(self, transport: Transport, argument: str) -> None:
        assert run_shell(transport, 'printf %s "$1"', argument).stdout == argument.encode()

    def test_input_reaches_the_program_and_ends(self, transport: Transport) -> None:
        content = os.urandom(3_000_000)
        completed = transport.run(["cat"], DEADLINE_S, stdin=io.BytesIO(content))
        assert completed.stdout == content

    def test_no_input_is_an_end_of_file(self, transport: Transport) -> None:
        assert transport.run(["cat"], DEADLINE_S) == base.CompletedProgram(0, b"", b"")

    def test_input_that_nobody_reads_is_no_error(self, transport: Transport) -> None:
        """A program may end without reading its input, as `head` does."""
        assert transport.run(["true"], DEADLINE_S, stdin=io.BytesIO(b"x" * 3_000_000)).exit_status == 0

    def test_output_goes_to_the_given_stream(self, transport: Transport) -> None:
        stream = io.BytesIO()
        completed = transport.run(["cat"], DEADLINE_S, stdin=io.BytesIO(b"abc"), stdout=stream)
        assert (completed.stdout, stream.getvalue()) == (b"", b"abc")

    def test_large_output_on_both_streams_does_not_block(self, transport: Transport) -> None:
        script = "head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2"
        completed = run_shell(transport, script)
        assert (len(completed.stdout), len(completed.stderr)) == (5_000_000, 5_000_000)

    def test_endless_output_is_an_error_and_is_not_kept_in_memory(
        self, transport: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(base, "MAX_OUTPUT_BYTES", 100_000)
        with pytest.raises(DeviceError, match="yes: printed more than 100000 bytes"):
            transport.run(["yes"], DEADLINE_S)

    def test_the_deadline_counts_from_the_start_even_while_output_comes(self, transport: Transport) -> None:
        with pytest.raises(DeadlineError, match=r"sh: did not end within 0.2 s"):
            run_shell(transport, "while :; do echo tick; sleep 0.02; done", deadline_s=0.2)

    def test_deadline_kills_grandchildren(self, transport: Transport) -> None:
        stream = io.BytesIO()
        for deadline_s in (0.3, 3.0, 30.0):  # on a busy machine the program has hardly begun at the first
            with pytest.raises(DeadlineError):
                transport.run(["sh", "-c", "sleep 1000 & echo $!; wait"], deadline_s, stdout=stream)
            if stream.getvalue().endswith(b"\n"):
                break
        wait_until_ended(int(stream.getvalue()))

    def test_what_a_program_leaves_behind_is_ended_with_it(self, transport: Transport) -> None:
        completed = run_shell(transport, "sleep 1000 & echo $!")
        assert completed.exit_status == 0
        wait_until_ended(int(completed.stdout))

    def test_pushed_program_runs_in_the_units_folder(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "program").write_text('#!/bin/sh\necho "ran $1" > result\n')
        (tmp_path / "program").chmod(0o755)
        transport.push({"bin/program": tmp_path / "program"})
        assert transport.run(["./bin/program", "well"], DEADLINE_S).exit_status == 0
        transport.pull("result", tmp_path / "result")
        assert (tmp_path / "result").read_text() == "ran well\n"

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_file_names_go_there_and_back(self, transport: Transport, tmp_path: Path, name: str) -> None:
        source, back = tmp_path / "source", tmp_path / f"back {name}"
        source.write_bytes(name.encode())
        transport.push({f"folder {name}/{name}": source})
        transport.pull(f"folder {name}/{name}", back)
        assert back.read_bytes() == name.encode()

    def test_push_sends_only_what_changed(self, transport: Transport, tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(b"one")
        assert transport.push({"file": source})
        assert not transport.push({"file": source})
        source.write_bytes(b"two")
        assert transport.push({"file": source})
        run_shell(transport, "echo damaged > file")
        assert transport.push({"file": source})
        source.chmod(0o755)
        assert transport.push({"file": source})

    @pytest.mark.parametrize("size", [0, 1, 3_000_001])
    def test_content_survives_the_round_trip(self, transport: Transport, tmp_path: Path, size: int) -> None:
        content = os.urandom(size)
        (tmp_path / "source").write_bytes(content)
        transport.push({"file": tmp_path / "source"})
        transport.pull("file", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == content

    def test_push_of_a_missing_local_file_is_an_error(self, transport: Transport, tmp_path: Path) -> None:
        with pytest.raises(JobError, match="No such file"):
            transport.push({"file": tmp_path / "missing"})

    def test_push_onto_a_folder_leaves_nothing_behind(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"x")
        run_shell(transport, "mkdir -p folder/file")
        with pytest.raises(DeviceError, match="cannot be written"):
            transport.push({"folder/file": tmp_path / "source"})
        assert run_shell(transport, "ls -A folder").stdout == b"file\n"

    def test_pull_of_a_missing_file_leaves_the_local_one(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "back").write_text("old")
        with pytest.raises(DeviceError, match="missing: no such file"):
            transport.pull("missing", tmp_path / "back")
        assert (tmp_path / "back").read_text() == "old"

    def test_pull_of_a_pipe_does_not_wait_for_it(self, transport: Transport, tmp_path: Path) -> None:
        run_shell(transport, "mkfifo pipe")
        with pytest.raises(DeviceError, match="no such file"):
            transport.pull("pipe", tmp_path / "back")

    @pytest.mark.parametrize("remote", ["", ".", "/etc/passwd", "../outside", "a/../../b", "folder/", "a\0b"])
    def test_paths_outside_the_units_folder_are_refused(
        self, transport: Transport, tmp_path: Path, remote: str
    ) -> None:
        (tmp_path / "source").write_bytes(b"x")
        with pytest.raises(DeviceError, match="no file name inside"):
            transport.push({remote: tmp_path / "source"})
        with pytest.raises(DeviceError, match="no file name inside"):
            transport.pull(remote, tmp_path / "back")

    def test_links_out_of_the_units_folder_are_refused(self, transport: Transport, tmp_path: Path) -> None:
        run_shell(transport, "ln -s /etc etc")
        with pytest.raises(DeviceError, match="leaves the unit's folder"):
            transport.pull("etc/passwd", tmp_path / "back")

    def test_process_answers_line_by_line(self, transport: Transport) -> None:
        process = transport.start(["cat"])
        for line in ("hello", "", "ünïcode", "x" * 200_000):
            process.write_line(line)
            assert process.read_line(DEADLINE_S) == line
        assert process.close() == 0
        assert process.close() == 0

    def test_lines_that_came_together_are_read_one_by_one(self, transport: Transport) -> None:
        process = transport.start(["printf", r"one\ntwo\nrest"])
        assert [process.read_line(DEADLINE_S), process.read_line(DEADLINE_S)] == ["one", "two"]
        with pytest.raises(DeviceLostError):
            process.read_line(DEADLINE_S)

    def test_process_that_dies_says_how(self, transport: Transport) -> None:
        process = transport.start(["sh", "-c", "echo 'the last words' >&2; kill -SEGV $$"])
        with pytest.raises(DeviceLostError, match=r"sh: ended with exit status 139 \(SIGSEGV\): the last words"):
            process.read_line(DEADLINE_S)
        with pytest.raises(DeviceLostError):
            process.write_line("anyone there?")
        assert process.close() == 139

    def test_writing_to_a_process_that_ended_says_so(self, transport: Transport) -> None:
        process = transport.start(["true"])
        with pytest.raises(DeviceLostError, match="exit status 0"):
            for _ in range(1000):
                process.write_line("x" * 10_000)

    def test_process_that_does_not_answer_is_killed(self, transport: Transport) -> None:
        process = transport.start(["sh", "-c", "echo $$; sleep 1000"])
        process_id = int(process.read_line(DEADLINE_S))
        with pytest.raises(DeadlineError, match=r"sh: did not answer within 0.2 s"):
            process.read_line(0.2)
        wait_until_ended(process_id)

    def test_close_ends_a_process_that_ignores_the_end_of_its_input(
        self, transport: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("farm.transport.program.GRACE_S", 0.1)
        process = transport.start(["sh", "-c", "trap '' TERM HUP; echo $$; sleep 1000"])
        process_id = int(process.read_line(DEADLINE_S))
        assert process.close() == 137
        wait_until_ended(process_id)

    def test_a_process_that_floods_its_output_is_killed(
        self, transport: Transport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(base, "MAX_LINE_BYTES", 100_000)
        process = transport.start(["cat", "/dev/zero"])
        with pytest.raises(DeviceError, match="printed more than 100000 bytes"):
            process.read_line(DEADLINE_S)
        assert process.close() == 137

    def test_of_a_flood_on_stderr_the_end_is_kept(self, transport: Transport) -> None:
        """The end usually says why the program failed."""
        process = transport.start(["sh", "-c", "head -c 1000000 /dev/zero >&2; echo ' last' >&2; echo done; cat"])
        assert process.read_line(DEADLINE_S) == "done"
        process.close()
        with pytest.raises(DeviceLostError, match=r"last$"):
            process.read_line(DEADLINE_S)

    def test_a_command_of_several_lines_is_refused(self, transport: Transport) -> None:
        """farmrt would read the second line as another command."""
        process = transport.start(["cat"])
        with pytest.raises(DeviceError, match="one line"):
            process.write_line("load a\nrun b")

    def test_starting_a_missing_program_is_an_error(self, transport: Transport) -> None:
        with pytest.raises(JobError):
            transport.start(["./no-such-program"]).read_line(DEADLINE_S)

    def test_close_of_the_transport_ends_its_processes(self, transport: Transport) -> None:
        process = transport.start(["sh", "-c", "echo $$; cat"])
        process_id = int(process.read_line(DEADLINE_S))
        transport.close()
        wait_until_ended(process_id)

    @pytest.mark.parametrize("argument", ["x" * 30_000, "a\tb\x01c", "'" * 50, "~", "$(echo no)", "`echo no`", "!1"])
    def test_long_and_odd_arguments_arrive_unchanged(self, transport: Transport, argument: str) -> None:
        assert run_shell(transport, 'printf %s "$1"', argument).stdout == argument.encode()

    @pytest.mark.parametrize("status", [126, 127])
    def test_a_program_may_itself_exit_with_126_or_127(self, transport: Transport, status: int) -> None:
        assert run_shell(transport, f"exit {status}").exit_status == status

    def test_ten_megabytes_in_and_out(self, transport: Transport) -> None:
        content, stream = os.urandom(10_000_000), io.BytesIO()
        assert transport.run(["cat"], DEADLINE_S, stdin=io.BytesIO(content), stdout=stream).exit_status == 0
        assert stream.getvalue() == content

    def test_endless_stderr_is_an_error_too(self, transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(base, "MAX_OUTPUT_BYTES", 100_000)
        with pytest.raises(DeviceError, match="sh: printed more than 100000 bytes"):
            run_shell(transport, "yes >&2")

    def test_program_that_closes_its_output_and_stays(self, transport: Transport) -> None:
        assert run_shell(transport, "exec >&- 2>&-; sleep 0.3; exit 5").exit_status == 5

    def test_of_a_batch_only_changed_files_are_pushed(self, transport: Transport, tmp_path: Path) -> None:
        files = {}
        for index in range(30):
            local = tmp_path / f"file {index}"
            local.write_bytes(os.urandom(index))
            local.chmod(0o755 if index % 2 else 0o644)
            files[f"./objects/{index % 7}/name {index}" if index % 3 else f"{index}"] = local
        assert transport.push(files) == list(files)
        assert transport.push(files) == []
        run_shell(transport, "echo altered >3; chmod -x './objects/5/name 5'; rm 6")
        assert set(transport.push(files)) == {"3", "./objects/5/name 5", "6"}
        executable = run_shell(
            transport, 'for f in [0-9]* objects/*/*; do [ -x "$f" ] && [ -f "$f" ] && echo "$f"; done'
        )
        numbers = {int(line.split()[-1]) for line in executable.stdout.decode().splitlines()}
        assert numbers == set(range(1, 30, 2))

    def test_an_empty_batch_pushes_nothing(self, transport: Transport) -> None:
        assert transport.push({}) == []

    def test_push_through_a_link_that_leaves_is_refused(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "source").write_bytes(b"x")
        run_shell(transport, 'mkdir -p "$1"; ln -s "$1" out', str(tmp_path / "outside"))
        for name in ("out/file", "out/new/file"):
            with pytest.raises(DeviceError, match="leaves the unit's folder"):
                transport.push({name: tmp_path / "source"})
        assert not list((tmp_path / "outside").iterdir())

    def test_a_refused_push_leaves_no_temporary_files(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"x")
        run_shell(transport, "mkdir folder")
        with pytest.raises(DeviceError):
            transport.push({"folder": tmp_path / "source"})
        assert run_shell(transport, "ls -A").stdout == b"folder\n"

    def test_the_units_folder_is_made_anew(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"x")
        transport.push({"deep/er/file": tmp_path / "source"})
        run_shell(transport, 'rm -rf "$PWD"/deep')
        assert transport.push({"deep/er/file": tmp_path / "source"})

    @pytest.mark.parametrize("name", [".hidden", "..odd", ".farm/.notes", "a/.b/c", "./././d", "e//f", "push-1"])
    def test_hidden_and_odd_paths(self, transport: Transport, tmp_path: Path, name: str) -> None:
        (tmp_path / "source").write_bytes(name.encode())
        assert transport.push({name: tmp_path / "source"}) == [name]
        assert transport.push({name: tmp_path / "source"}) == []
        transport.pull(name, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == name.encode()

    def test_a_link_in_a_files_place_is_replaced(self, transport: Transport, tmp_path: Path) -> None:
        (tmp_path / "source").write_bytes(b"new")
        run_shell(transport, "echo old >old; ln -s old file")
        assert transport.push({"file": tmp_path / "source"})
        assert run_shell(transport, "cat old file").stdout == b"old\nnew"


class PosixContract(TransportContract):
    """What transports over a link (farm.transport.posix) add to the contract."""

    def test_a_file_that_grows_while_it_is_fetched_is_cut_off(
        self, transport: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run_shell(transport, "echo few >log")
        inspect = transport._inspect  # type: ignore[attr-defined]

        def then_grow(remotes: Iterable[str]) -> object:
            statuses = inspect(remotes)
            monkeypatch.setattr(transport, "_run_script", lambda script, arguments: [b"4"])
            run_shell(transport, "dd if=/dev/zero bs=1000000 count=20 2>/dev/null >>log")
            return statuses

        monkeypatch.setattr(transport, "_inspect", then_grow)
        with pytest.raises(DeviceError, match="log: has more than the 4 bytes that it was said to have"):
            transport.pull("log", tmp_path / "back")
        assert list(tmp_path.glob("*back*")) == []

    @pytest.mark.parametrize(("age", "remains"), [({"seconds": 90}, True), ({"hours": 20}, True), ({"days": 3}, False)])
    def test_only_old_leftovers_of_pushes_are_removed(
        self, transport: Transport, tmp_path: Path, age: dict[str, int], remains: bool
    ) -> None:
        """A folder of a recent push may belong to another controller that is pushing now."""
        (tmp_path / "source").write_bytes(b"x")
        then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(**age)
        run_shell(transport, 'mkdir push-1; TZ=UTC touch -t "$1" push-1', then.strftime("%Y%m%d%H%M.%S"))
        assert transport.push({"file": tmp_path / "source"})
        assert (run_shell(transport, "ls").stdout == b"file\npush-1\n") == remains

    @pytest.mark.parametrize(
        "hashes",
        [
            f'shift; echo used >> used; exec {shutil.which("sha256sum")} "$@"',
            "echo used >> used; echo nonsense; exit 1",
        ],
    )
    def test_a_program_of_the_unit_hashes_where_it_works(
        self, transport: Transport, tmp_path: Path, hashes: str
    ) -> None:
        (tmp_path / "hasher").write_text(f"#!/bin/sh\n{hashes}\n")
        (tmp_path / "hasher").chmod(0o755)
        (tmp_path / "source").write_bytes(b"x")
        transport.push({"hasher": tmp_path / "hasher"})
        transport.hash_with("hasher")
        assert transport.push({"a": tmp_path / "source"}) == ["a"]
        assert transport.push({"a": tmp_path / "source", "folder/b\n": tmp_path / "source"}) == ["folder/b\n"]
        assert set(run_shell(transport, "cat used").stdout.split()) == {b"used"}
        run_shell(transport, "echo y > a; rm hasher")
        assert transport.push({"a": tmp_path / "source"}) == ["a"], "it works without the program, too"
