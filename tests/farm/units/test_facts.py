"""Facts of phones and boards, from good, missing and hostile answers."""

import hashlib
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm import soc, transport
from farm.config.fields import SAFE_NAME
from farm.config.inventory import HOST, Unit
from farm.emulation.phone import PhoneSettings
from farm.emulation.phone_thread import EmulatedPhone
from farm.emulation.socs import SOCS
from farm.transport.base import CompletedProgram
from farm.units import facts
from farm.units.facts import Facts
from farm.units.identity import read_identity
from farm.units.shipped_facts import GPUS, shipped_probe
from tests.farm.emulation.adb_client import AdbClient


def answers_of(values: dict[str, str]) -> str:
    """What the script prints."""
    return "".join(f"\n@farm {name}\n{text}" for name, text in values.items())


PHONE = answers_of(
    {
        "ro.product.model": "MI 8\n",
        "ro.board.platform": "sdm845\n",
        "ro.hardware": "qcom\n",
        "ro.product.cpu.abilist": "arm64-v8a,armeabi-v7a,armeabi\n",
        "ro.build.version.release": "10\n",
        "ro.build.version.sdk": "29\n",
        "ro.hardware.egl": "adreno\n",
    }
)
BOARD = answers_of(
    {
        "tree-model": "Pine64 RockPro64 v2.1\0",
        "compatible": "pine64,rockpro64-v2.1\0pine64,rockpro64\0rockchip,rk3399\0",
        "os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\n',
        "machine": "aarch64\n",
        "bits": "64\n",
        "packages": "arm64\narmhf\n",
    }
)


def test_facts_of_a_phone_are_parsed() -> None:
    assert facts.parse(PHONE) == Facts(
        model="MI 8", soc="sdm845", abis=("arm64-v8a", "armeabi-v7a"), os="Android 10 (API 29)", gpu="adreno"
    )
    assert facts.parse(PHONE + answers_of({"adreno": "Adreno630v2\n"})).gpu == "Adreno630v2"
    assert facts.parse(PHONE + answers_of({"mali": "Mali-G76 10 cores r0p1 0x72110001\n"})).gpu.startswith("Mali-G76")


def test_facts_of_a_board_are_parsed() -> None:
    assert facts.parse(BOARD) == Facts(
        model="Pine64 RockPro64 v2.1", soc="rk3399", abis=("arm64", "armhf"), os="Debian 12"
    )


@pytest.mark.parametrize(
    ("answers", "abis"),
    [
        ({"machine": "armv7l\n"}, ("armhf",)),
        ({"machine": "aarch64\n"}, ("arm64",)),
        ({"machine": "aarch64\n", "bits": "32\n"}, ("armhf",)),
        ({"machine": "aarch64\n", "bits": "64\n", "packages": "armhf\n"}, ("armhf",)),
        ({"machine": "riscv64\n"}, ()),
        ({"machine": "x86_64\n", "packages": "amd64\ni386\n"}, ("host",)),
        ({"machine": "\n"}, ()),
        ({"ro.product.cpu.abilist": "host\n"}, ("host",)),
        ({"ro.product.cpu.abilist": "x86_64,arm64-v8a\n"}, ("arm64-v8a",)),
        ({"ro.product.cpu.abi": "arm64-v8a\n"}, ("arm64-v8a",)),
        ({"ro.product.cpu.abilist": "../../etc\n", "machine": "aarch64"}, ()),
    ],
)
def test_abis_come_from_android_packages_or_machine(answers: dict[str, str], abis: tuple[str, ...]) -> None:
    assert facts.parse(answers_of(answers), host_machine="x86_64").abis == abis


def test_qualcomms_number_counts_only_on_their_chips() -> None:
    number = answers_of({"soc0-id": "321\n"})
    assert facts.parse(number + answers_of({"soc0-family": "Snapdragon\n"})).soc == "sdm845"
    assert facts.parse(number + answers_of({"soc0-family": "Tegra\n"})).soc == "unknown"
    assert facts.parse(answers_of({"soc0-machine": "i.MX8MM\n"})).soc == "imx8mm"
    assert facts.parse(answers_of({"hardware": "Hardware\t: Qualcomm Technologies, Inc SDM660\n"})).soc == "sdm660"


def test_no_output_gives_empty_facts() -> None:
    assert facts.parse("") == facts.parse("sh: getprop: not found\n") == Facts()


HOSTILE = {
    "escapes": "\x1b]0;owned\x07\x1b[2J\x9b31m",
    "lines": "a\nb\r\nc\x85d\u2028e",
    "long": "x" * 2**20,
    "invalid UTF-8": b"\xff\xfe\x80SDM845".decode(errors="replace"),
    "surrogate": "\udcff",
    "a path": "../../../../etc/passwd",
    "reversed": "\u202egnp.exe",
    "NUL": "a\0b",
    "a mark": "x\n@farm ro.product.model\nforged",
    "markup": "[bold red]x[/] `rm` | <script>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_words_are_bounded_and_fit_on_a_line(name: str) -> None:
    word = HOSTILE[name]
    names = (*facts.PROPERTIES, *facts.FILES, "hardware", "machine", "packages", "bits")
    values = dict.fromkeys(names, word)
    check(facts.parse(answers_of(values)))
    check(facts.parse(answers_of({"os-release": f'NAME="{word}"\nVERSION_ID="{word}"\n'})))


@pytest.mark.slow
@given(st.text(), st.sampled_from((*facts.PROPERTIES, *facts.FILES)))
def test_any_word_is_bounded_and_fits_on_a_line(text: str, name: str) -> None:
    check(facts.parse(answers_of({name: text})))


def check(found: Facts) -> None:
    assert SAFE_NAME.fullmatch(found.soc)
    for word in (found.model, found.os, found.gpu):
        assert word.isprintable() and len(word) <= 80


def test_the_script_runs_on_this_machine(tmp_path: Path) -> None:
    opened = transport.connect(HOST, tmp_path)
    found = facts.read_facts(opened)
    assert found.abis == ("host",)
    assert found.os
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("key", SOCS)
@pytest.mark.parametrize("android", [6, 7, 14])
def test_the_script_finds_what_an_emulated_phone_has(key: str, android: int) -> None:
    chip = SOCS[key]
    with EmulatedPhone(PhoneSettings(soc=key, android=android)) as phone, AdbClient(phone.port) as peer:
        peer.connect()
        found = facts.parse(peer.run(shlex.join(["sh", "-c", facts.SCRIPT])).stdout.decode())
    assert (found.soc, found.model, found.abis) == (key, chip.model, ("host",))
    assert found.os.startswith(f"Android {android} (API ")
    assert bool(found.obstacle) == (android < 7)
    assert found.gpu == (
        chip.gpu.name if chip.gpu.maker != "powervr" else "powervr"
    )  # its driver in the kernel is silent


def test_devices_yml_overrides_the_facts() -> None:
    said = Facts(model="MI 8", soc="sdm845", abis=("arm64-v8a",))
    phone = Unit("phone", "adb", "unknown", "phone", ())
    assert facts.complete(phone, said) == Unit("phone", "adb", "sdm845", "MI 8", ("arm64-v8a",))
    named = Unit("phone", "adb", "sdm845-slow", "My phone", ("armeabi-v7a",))
    assert facts.complete(named, said) == named
    assert facts.complete(phone, Facts()) == phone
    assert facts.complete(HOST, said) == HOST


@pytest.mark.parametrize("key", GPUS)
def test_a_shipped_soc_makes_a_target_of_a_known_family(key: str) -> None:
    probe = shipped_probe(key, "arm64-v8a")
    assert probe and soc.normalise(key) == key
    target = probe.target(key)
    assert target.gpu_family not in ("unknown", "adreno", "mali")
    assert target.memory == ("image" if target.gpu_family.startswith(("adreno", "powervr")) else "buffer")


class Board:
    """Runs the script on files below a folder; their file system is of a given kind."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.write("proc/self/mountinfo", "22 1 0:20 / / rw - ext4 /dev/root rw")
        for card, kind_of_address in (("eth0", 0), ("eth1", 0), ("usb0", 1)):
            self.write(f"sys/class/net/{card}/addr_assign_type", str(kind_of_address))
            self.write(f"sys/class/net/{card}/address", f"00:00:00:00:00:{card}")
            (root / f"sys/class/net/{card}/device").mkdir()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def boot(self, number: int) -> str:
        self.write("etc/machine-id", f"{number:032x}")
        return read_identity(self)  # type: ignore[arg-type]

    def run(self, argv: list[str], deadline_s: float) -> CompletedProgram:
        script = argv[-1]
        for folder in ("proc", "sys", "etc"):
            script = script.replace(f" /{folder}/", f" {self.root}/{folder}/")
        script = script.replace(f"' {self.root}/etc/machine-id '", "' /etc/machine-id '")
        done = subprocess.run(
            ["sh", "-c", f"stat() {{ echo {self.kind}; }}\n{script}"], capture_output=True, timeout=deadline_s
        )
        return CompletedProgram(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(("kind", "is_kept"), [("ext2/ext3", False), ("tmpfs", True), ("overlayfs", True)])
def test_a_machine_id_counts_where_it_is_kept(tmp_path: Path, kind: str, is_kept: bool) -> None:
    board = Board(tmp_path, kind)
    assert (board.boot(1) == board.boot(2)) == is_kept


def test_a_machine_id_that_is_mounted_over_does_not_count(tmp_path: Path) -> None:
    board = Board(tmp_path, "ext2/ext3")
    board.write("proc/self/mountinfo", "41 29 0:23 /machine-id /etc/machine-id ro - tmpfs tmpfs rw")
    assert board.boot(1) == board.boot(2) != ""


def test_a_serial_number_comes_first_and_a_machine_id_is_better_than_nothing(tmp_path: Path) -> None:
    board = Board(tmp_path, "tmpfs")
    for card in ("eth0", "eth1"):
        board.write(f"sys/class/net/{card}/addr_assign_type", "1")
    assert len({board.boot(1), board.boot(2), ""}) == 3
    board.write("proc/device-tree/serial-number", "0123")
    assert board.boot(3) == board.boot(4) == hashlib.sha256(b"0123").hexdigest()[:12]
