"""The state of phones, boards and hosts, as they tell it: versions and vendors differ, and much is missing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.condition import device_state, linux_state
from farm.condition.device_state import parse, read_conditions, read_state
from farm.rows.device_state import DeviceState
from farm.transport.local import LocalTransport
from tests.farm.transport.unit_shells import SHELLS, shell_environment

SYSFS = {
    **{f"devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq": str(300_000 + core) for core in range(12)},
    **{f"devices/system/cpu/cpu{core}/cpufreq/scaling_max_freq": "1766400" for core in range(12)},
    **{f"devices/system/cpu/cpu{core}/cpufreq/scaling_governor": "schedutil" for core in range(4)},
    **{f"devices/system/cpu/cpu{core}/cpufreq/scaling_governor": "performance" for core in range(4, 12)},
    "class/thermal/thermal_zone0/type": "pmic",
    "class/thermal/thermal_zone0/temp": "99000",
    "class/thermal/thermal_zone3/type": "cpu-1-0-usr",
    "class/thermal/thermal_zone3/temp": "41500",
    "class/thermal/thermal_zone12/type": "gpuss-0-usr",
    "class/thermal/thermal_zone12/temp": "43200",
    "class/thermal/cooling_device0/type": "thermal-cpufreq-0",
    "class/thermal/cooling_device0/cur_state": "2",
    "class/thermal/cooling_device1/type": "pwm-fan",
    "class/thermal/cooling_device1/cur_state": "9",
    "class/devfreq/5000000.qcom,kgsl-3d0/cur_freq": "257000000",
    "class/devfreq/5000000.qcom,kgsl-3d0/governor": "msm-adreno-tz",
    "class/devfreq/soc:llccbw/cur_freq": "900000000",
    "class/power_supply/usb/type": "USB",
    "class/power_supply/battery/type": "Battery",
    "class/power_supply/battery/capacity": "80",
    "class/power_supply/battery/status": "Charging",
    "class/power_supply/battery/temp": "312",
}
BATTERY = """Current Battery Service state:
  AC powered: false
  USB powered: true
  Max charging current: 500000
  status: 2
  health: 2
  present: true
  level: 87
  scale: 100
  voltage: 4250
  temperature: 305
  technology: Li-poly
"""
THERMAL = """IsStatusOverride: false
Thermal Status: 1
Cached temperatures:
\tTemperature{mValue=80.0, mType=0, mName=CPU0, mStatus=0}
\tTemperature{mValue=50.0, mType=3, mName=skin, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
\tTemperature{mValue=44.5, mType=0, mName=CPU0, mStatus=0}
\tTemperature{mValue=46.25, mType=1, mName=GPU0, mStatus=0}
\tTemperature{mValue=0.0, mType=0, mName=CPU9, mStatus=0}
\tTemperature{mValue=36.6, mType=3, mName=skin, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=99, mType=2, mName=gpu}
"""
POWER = "  mWakefulness=Dozing\nSuspend Blockers: size=4\nDisplay Power: state=OFF\n"
DUMPSYS = f"""#!/bin/sh
case $1 in
battery) cat <<'END'
{BATTERY}END
;;
thermalservice) cat <<'END'
{THERMAL}END
;;
power) cat <<'END'
{POWER}END
;;
esac
"""


def make_unit(folder: Path, monkeypatch: pytest.MonkeyPatch, shell: str = "sh", android: bool = True) -> LocalTransport:
    """A unit with this sysfs, in a folder, and Android's programs."""
    for name, text in SYSFS.items():
        path = folder / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    for script in ("VOLATILE_SCRIPT", "STEADY_SCRIPT"):
        moved = getattr(device_state, script).replace("/sys/", f"{folder}/sys/")
        monkeypatch.setattr(device_state, script, moved)
    programs = folder / "programs"
    programs.mkdir()
    for name, text in {"dumpsys": DUMPSYS, "settings": "#!/bin/sh\necho 1\n"}.items() if android else ():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    environment = shell_environment(shell, folder / "bin")
    return LocalTransport(folder / "unit", environment | {"PATH": f"{programs}:{environment['PATH']}"})


@pytest.mark.parametrize("shell", SHELLS)
def test_a_phones_state_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    state = read_state(make_unit(tmp_path, monkeypatch, shell))
    assert state.load_average is not None and state.free_bytes and state.free_bytes > 1_000_000
    assert state.clock_mhz == tuple((300_000 + core) / 1000 for core in range(12))
    assert set(state.clock_limit_mhz) == {1766.4}
    assert state.gpu_clock_mhz == pytest.approx(257.0)
    assert (state.temperature_c, state.skin_temperature_c, state.thermal_status) == (43.2, 36.6, 1)
    assert (state.battery_percent, state.battery_temperature_c, state.charging) == (87, 30.5, True)
    assert (state.cooling, state.cooling_steps) == (2, {"0": 2})
    assert (state.screen_on, state.low_power) == (False, True)
    assert state.governors == {"cpu0-3": "schedutil", "cpu4-11": "performance", "gpu": "msm-adreno-tz"}


@pytest.mark.parametrize(
    ("file", "text", "mhz"),
    [
        ("/sys/class/kgsl/kgsl-3d0/gpuclk", "585000000", 585.0),
        ("/sys/kernel/gpu/gpu_clock", "702", 702.0),  # Exynos
        ("/sys/devices/platform/28000000.mali/cur_freq", "848000", 848.0),  # Pixel
        ("/sys/class/misc/mali0/device/devfreq/13000000.mali/cur_freq", "886000000", 886.0),
        ("/sys/kernel/ged/hal/current_freqency", "3 1300000", 1300.0),  # MediaTek
        ("/sys/kernel/ged/hal/current_freqency", "", None),
        ("/sys/kernel/gpu/gpu_clock", "0", None),  # it sleeps
    ],
)
def test_the_clock_of_a_gpu_by_any_kernel(file: str, text: str, mhz: float | None) -> None:
    assert parse(f"file {file}={text}\n").gpu_clock_mhz == mhz


def test_a_board_with_a_battery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = read_state(make_unit(tmp_path, monkeypatch, android=False))
    assert (state.battery_percent, state.battery_temperature_c, state.charging) == (80, 31.2, True)
    assert (state.thermal_status, state.screen_on, state.low_power) == (None, None, None)


def test_conditions_are_what_changes_while_a_model_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = read_conditions(make_unit(tmp_path, monkeypatch))
    assert (state.temperature_c, state.thermal_status, state.cooling) == (43.2, 1, 2)
    assert state.clock_limit_mhz and state.battery_percent is None


def test_this_machines_state_is_read(tmp_path: Path) -> None:
    state = read_state(LocalTransport(tmp_path))
    assert state.load_average is not None and state.clock_mhz and state.free_bytes


def test_without_frequency_files_clocks_come_from_cpuinfo() -> None:
    state = parse("mhz cpu MHz\t\t: 2596.128\nmhz cpu MHz\t\t: 2600.0\n")
    assert state.clock_mhz == (2596.128, 2600.0)


def test_nothing_is_known_of_a_unit_that_tells_nothing() -> None:
    assert parse("") == DeviceState()


def test_temperatures_come_from_the_thermal_service_where_sysfs_is_unreadable() -> None:
    lines = "\n".join(f"thermalservice {line}" for line in THERMAL.splitlines())
    assert parse(lines).temperature_c == 46.25


def test_an_old_thermal_services_cached_temperatures_are_used() -> None:
    lines = "thermalservice Thermal Status: 3\nthermalservice Temperature{mValue=41.0, mType=0, mName=CPU, mStatus=0}"
    assert (parse(lines).thermal_status, parse(lines).temperature_c) == (3, 41.0)


def zones(**temperatures: int) -> str:
    """What the script says of thermal zones of these types, `_` for `-`, in this order."""
    lines = []
    for number, (kind, value) in enumerate(temperatures.items()):
        lines += [f"file /sys/class/thermal/thermal_zone{number}/type={kind.replace('__', '-')}"]
        lines += [f"file /sys/class/thermal/thermal_zone{number}/temp={value}"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("output", "celsius"),
    [
        (zones(soc=87, socd=13, pm8150b__vbat__lvl0=4012, pm8150b__bcl__lvl0=9000, cpu__0=41000), 41.0),
        (zones(soc=87, battery=31000), None),
        (zones(vbat=4012, xo__therm=39000), 39.0),
        (zones(soc__thermal=52000, soc=87), 52.0),
        (zones(soc_thermal=52000), 52.0),
        (zones(cpu__0=0, cpu__1=0, pmic=38000), 38.0),
        (zones(cpu__0=0), None),
        (zones(cpu__0=-40000, gpu=45000), 45.0),
    ],
)
def test_a_batterys_charge_and_missing_sensors_are_no_heat(output: str, celsius: float | None) -> None:
    assert parse(output).temperature_c == celsius


def test_zones_that_say_0_do_not_hide_the_thermal_service() -> None:
    lines = "\n".join(f"thermalservice {line}" for line in THERMAL.splitlines())
    assert parse(zones(cpu__0=0) + "\n" + lines).temperature_c == 46.25


MOUSE = {"type": "Battery", "scope": "Device", "capacity": "5", "status": "Discharging", "online": "1"}
LAPTOP = {"type": "Battery", "scope": "System", "capacity": "79", "status": "Not charging", "temp": "300"}


def supplies(**found: dict[str, str]) -> str:
    return "\n".join(
        f"file /sys/class/power_supply/{name}/{key}={value}"
        for name, keys in found.items()
        for key, value in keys.items()
    )


def test_a_mouse_is_not_the_machines_battery() -> None:
    assert parse(supplies(a=MOUSE)) == DeviceState()
    mains = {"type": "Mains", "online": "1"}
    held = parse(supplies(a=MOUSE, b=LAPTOP, c=mains))
    assert (held.battery_percent, held.charging, held.plugged, held.battery_temperature_c) == (79, False, True, 30.0)
    assert parse(supplies(a=MOUSE, b=LAPTOP, c={**mains, "online": "0"})).plugged is False


@pytest.mark.parametrize(("status", "charging"), [(1, None), (2, True), (3, False), (4, False), (5, True)])
def test_a_phone_that_is_plugged_in_may_not_charge(status: int, charging: bool | None) -> None:
    lines = BATTERY.replace("status: 2", f"status: {status}").splitlines()
    state = parse("\n".join(f"battery {line}" for line in lines))
    assert (state.charging, state.plugged) == (charging, True)


def test_clocks_are_those_of_their_cores_when_others_are_offline() -> None:
    clocks = {0: 1000_000, 1: 1000_000, 5: 2000_000}
    lines = [f"file /sys/devices/system/cpu/cpu{core}/cpufreq/scaling_max_freq={khz}" for core, khz in clocks.items()]
    assert parse("\n".join(lines)).clock_limit_mhz == (1000.0, 1000.0, 0.0, 0.0, 0.0, 2000.0)


@pytest.mark.parametrize(
    ("text", "celsius"),
    [("41500", 41.5), ("41", 41.0), ("415", 41.5), ("-5000", -5.0), ("-40000000", None), ("", None), ("hot", None)],
)
def test_temperatures_in_any_kernels_unit_are_understood(text: str, celsius: float | None) -> None:
    assert linux_state.celsius(text) == celsius


@pytest.mark.parametrize(("text", "on"), [("1", True), ("0", False), ("null", False), ("Error: no service", None)])
def test_battery_saver_is_read_from_the_setting(text: str, on: bool | None) -> None:
    assert parse(f"low_power {text}").low_power is on


@pytest.mark.parametrize(
    ("lines", "on"),
    [("power mWakefulness=Awake", True), ("power mWakefulness=Asleep", False), ("power Display Power: state=ON", True)],
)
def test_the_screen_is_read_from_old_and_new_dumps(lines: str, on: bool) -> None:
    assert parse(lines).screen_on is on


def test_battery_levels_are_scaled_and_impossible_ones_left_out() -> None:
    assert parse("battery   level: 50\nbattery   scale: 200\n").battery_percent == 25
    assert parse("battery   level: 500\nbattery   scale: 0\n").battery_percent is None


def test_names_from_a_unit_are_safe_to_print() -> None:
    governors = parse("file /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor=\x1b[31mred\x07").governors
    assert all(name.isprintable() and text.isprintable() for name, text in governors.items())


KINDS = st.sampled_from(
    ["file /sys/class/thermal/thermal_zone0/temp=", "file /proc/loadavg=", "battery level: ", "mhz "]
)


@pytest.mark.slow
@given(st.lists(st.tuples(KINDS, st.text(max_size=40))), st.text(max_size=200))
def test_any_output_is_read(lines: list[tuple[str, str]], rest: str) -> None:
    state = parse("\n".join(f"{kind}{text}" for kind, text in lines) + rest)
    DeviceState.model_validate_json(state.model_dump_json())


def test_output_without_end_is_cut() -> None:
    state = parse("file /proc/loadavg=1.0 0 0\n" + "x\n" * 20_000 + "file /proc/loadavg=2.0\n")
    assert state.load_average == 1.0
