"""Governors are set where the unit allows it, a phone is kept awake, and all comes back; the scheduler's profile."""

from pathlib import Path

import pytest

from farm.condition import task_profile
from farm.condition.steadiness import held_steady
from farm.condition.task_profile import TaskProfile
from farm.lease import leftovers
from farm.transport.local import LocalTransport
from runtime.errors import LeaseLostError
from tests.farm.transport.unit_shells import SHELLS, shell_environment

GOVERNORS = {
    "devices/system/cpu/cpufreq/policy0/scaling_governor": "schedutil",
    "devices/system/cpu/cpufreq/policy4/scaling_governor": "performance",
    "devices/system/cpu/cpu0/cpufreq/scaling_governor": "ondemand",
    "class/devfreq/ff9a0000.gpu/governor": "simple_ondemand",
    "class/devfreq/soc:llccbw/governor": "bw_hwmon",
}


class Board:
    """A unit with this sysfs."""

    def __init__(self, folder: Path, shell: str = "sh") -> None:
        self.sysfs = folder / "sys"
        for name, text in GOVERNORS.items():
            (self.sysfs / name).parent.mkdir(parents=True)
            (self.sysfs / name).write_text(f"{text}\n")
        self.notes = folder / "unit" / ".governors"
        self.transport = LocalTransport(folder / "unit", shell_environment(shell, folder / "bin"))

    def governors(self) -> dict[str, str]:
        return {name: (self.sysfs / name).read_text().strip() for name in GOVERNORS}


@pytest.mark.parametrize("shell", SHELLS)
def test_governors_are_set_within_the_block_and_restored_after(tmp_path: Path, shell: str) -> None:
    board = Board(tmp_path, shell)
    with held_steady(board.transport, sysfs=str(board.sysfs)) as changed:
        assert changed.governors == {"policy0": "performance", "cpu0": "performance", "ff9a0000.gpu": "performance"}
        during = board.governors()
        assert list(during.values()) == ["performance"] * 4 + ["bw_hwmon"]
    assert board.governors() == GOVERNORS and not board.notes.exists()


def test_an_error_within_restores_them(tmp_path: Path) -> None:
    board = Board(tmp_path)
    with pytest.raises(ZeroDivisionError), held_steady(board.transport, sysfs=str(board.sysfs)):
        raise ZeroDivisionError
    assert board.governors() == GOVERNORS


@pytest.mark.parametrize("shell", SHELLS)
def test_after_a_kill_the_next_holder_restores_them(tmp_path: Path, shell: str) -> None:
    board = Board(tmp_path, shell)
    never_left = held_steady(board.transport, sysfs=str(board.sysfs))
    never_left.__enter__()
    assert board.governors() != GOVERNORS
    swept = leftovers.clear(board.transport, str(board.sysfs))
    assert swept.governors == 3 and swept.line == "; governors put back: 3"
    assert board.governors() == GOVERNORS
    assert leftovers.clear(board.transport, str(board.sysfs)).governors == 0


def test_after_a_lost_lease_the_successors_governors_are_left_alone(tmp_path: Path) -> None:
    board = Board(tmp_path)

    def lost() -> None:
        raise LeaseLostError("pixel: lost")

    with held_steady(board.transport, check=lost, sysfs=str(board.sysfs)):
        pass
    assert board.governors() != GOVERNORS and board.notes.exists()


def test_a_governor_that_may_not_be_written_is_left_out(tmp_path: Path) -> None:
    board = Board(tmp_path)
    for name in GOVERNORS:
        (board.sysfs / name).unlink()
        (board.sysfs / name).mkdir()  # also root cannot write that
    with held_steady(board.transport, sysfs=str(board.sysfs)) as changed:
        assert changed.governors == changed.settings == {}
    assert not board.notes.exists()


def test_saved_paths_outside_sysfs_are_not_written(tmp_path: Path) -> None:
    board = Board(tmp_path)
    other = tmp_path / "other_governor"
    other.write_text("mine")
    board.notes.write_text(f"{other} x\n{board.sysfs}/../other_governor x\n")
    leftovers.clear(board.transport, str(board.sysfs))
    assert other.read_text() == "mine"


# --- awake -------------------------------------------------------------------------------------

PHONE_PROGRAMS = {
    "settings": """folder={folder}
case $1 in
get) cat $folder/stay 2>/dev/null || echo null ;;
put) echo "$4" >$folder/stay ;;
esac
""",
    "svc": "case $3 in true) echo 7 ;; *) echo 0 ;; esac >{folder}/stay\n",
    "input": "echo $2 >>{folder}/keys\n",
    "dumpsys": "cat {folder}/power\n",
}


class SleepyPhone:
    """A phone with this setting of `stay_on_while_plugged_in`; `null` has none."""

    def __init__(self, folder: Path, setting: str, wakefulness: str, shell: str = "sh") -> None:
        programs = folder / "programs"
        programs.mkdir()
        for name, text in PHONE_PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text.replace('{folder}', str(folder))}")
            (programs / name).chmod(0o755)
        (folder / "power").write_text(f"  mWakefulness={wakefulness}\n")
        self.stay, self.keys = folder / "stay", folder / "keys"
        if setting != "null":
            self.stay.write_text(setting)
        environment = shell_environment(shell, folder / "bin")
        self.transport = LocalTransport(folder / "unit", environment | {"PATH": f"{programs}:{environment['PATH']}"})

    @property
    def setting(self) -> str:
        return self.stay.read_text().strip() if self.stay.exists() else "null"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("setting", ["0", "null"])
def test_a_phone_is_kept_awake_and_left_as_it_was(tmp_path: Path, shell: str, setting: str) -> None:
    phone = SleepyPhone(tmp_path, setting, "Asleep", shell)
    with held_steady(phone.transport, sysfs=str(tmp_path)) as changed:
        assert (phone.setting, phone.keys.read_text()) == ("7", "KEYCODE_WAKEUP\n")
        assert changed.settings == {"kept_awake": True}
    assert phone.setting == "0"


@pytest.mark.parametrize("setting", ["0", "null"])
def test_after_a_kill_the_next_holder_lets_it_sleep(tmp_path: Path, setting: str) -> None:
    phone = SleepyPhone(tmp_path, setting, "Awake")
    never_left = held_steady(phone.transport, sysfs=str(tmp_path))
    never_left.__enter__()
    assert phone.setting == "7" and not phone.keys.exists()
    leftovers.clear(phone.transport, str(tmp_path))
    assert phone.setting == "0"
    phone.stay.write_text("7")  # its owner keeps it on from now on
    leftovers.clear(phone.transport, str(tmp_path))
    assert phone.setting == "7"


@pytest.mark.parametrize(("setting", "keep_awake"), [("3", True), ("0", False)])
def test_a_phone_that_stays_on_or_shall_sleep_is_left_alone(tmp_path: Path, setting: str, keep_awake: bool) -> None:
    phone = SleepyPhone(tmp_path, setting, "Awake")
    with held_steady(phone.transport, keep_awake, sysfs=str(tmp_path)) as changed:
        assert phone.setting == setting and changed.settings == {}
    assert phone.setting == setting


# --- task profile ------------------------------------------------------------------------------


def make_phone(folder: Path, known: str, shell: str = "sh") -> LocalTransport:
    """A unit whose `settaskprofile` knows some profiles, and writes down to whom it gave which."""
    environment = shell_environment(shell, folder / "bin")
    programs = folder / "programs"
    programs.mkdir()
    program = programs / "settaskprofile"
    program.write_text(
        f"""#!/bin/sh
task=$1
shift
for name in "$@"; do
  case " {known} " in *" $name "*) ;; *) exit 1 ;; esac
done
echo "$task $*" >>{folder}/given
"""
    )
    program.chmod(0o755)
    return LocalTransport(folder / "unit", environment | {"PATH": f"{programs}:{environment['PATH']}"})


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("known", "name"),
    [
        ("SCHED_SP_TOP_APP CPUSET_SP_TOP_APP MaxPerformance", "SCHED_SP_TOP_APP+CPUSET_SP_TOP_APP"),
        ("MaxPerformance", "MaxPerformance"),
        ("Other", ""),
    ],
)
def test_the_first_profile_that_the_unit_allows_is_chosen(tmp_path: Path, shell: str, known: str, name: str) -> None:
    assert task_profile.find_profile(make_phone(tmp_path, known, shell)).name == name


def test_a_unit_without_profiles_runs_commands_unchanged(tmp_path: Path) -> None:
    found = task_profile.find_profile(LocalTransport(tmp_path))
    assert found == TaskProfile()
    assert found.wrap(["./farmrt", "serve"]) == ["./farmrt", "serve"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_runs_under_the_profile_in_the_same_process(tmp_path: Path, shell: str) -> None:
    transport = make_phone(tmp_path, "MaxPerformance", shell)
    wrapped = task_profile.find_profile(transport).wrap(["sh", "-c", 'echo "$$ $1"', "sh", "a b'c"])
    process, words = transport.run(wrapped, 10.0).stdout.decode().strip().split(" ", 1)
    assert words == "a b'c"
    assert (tmp_path / "given").read_text().splitlines()[-1] == f"{process} MaxPerformance"


def test_a_program_runs_also_where_the_profile_is_refused(tmp_path: Path) -> None:
    wrapped = TaskProfile(("MaxPerformance",)).wrap(["sh", "-c", "exit 7"])
    assert LocalTransport(tmp_path).run(wrapped, 10.0).exit_status == 7
