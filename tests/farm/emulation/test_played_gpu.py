"""A played GPU: its profile, its limits, its manners and its times, as a program sees them through OpenCL.

The library reads its profile once a process, so each script runs in one of its own.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from farm.emulation.played_gpu import build_library, played_environment, profile_names
from farm.emulation.played_model import PlayedModel, described_kernels
from farm.rows.row import PLAYED, played_note
from runtime.errors import ConfigError
from runtime.kernels.table import KERNELS
from runtime.native.build import build_farmrt

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "farm/emulation/gpu/src"

PREAMBLE = """
import json, os, time
import numpy as np, pyopencl as cl
from runtime.reference.device import open_device

SOURCE = '''
kernel void twice(global float *x, int count) { int i = get_global_id(0); if (i < count) x[i] *= 2; }
kernel void idle(global float *x, int count) {}
'''
device = open_device(os.environ["FARM_OPENCL"])
context = cl.Context([device])
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
flags, status = cl.mem_flags, cl.command_execution_status

def code(work):
    try:
        work()
    except cl.Error as error:
        return error.code
    return 0

def build(options=""):
    return cl.Program(context, SOURCE).build(options.split(), cache_dir=False)

def launch(name="twice", items=64, local=(16,), values=None, options="", where=None):
    kernel = cl.Kernel(build(options), name)
    x = np.ones(items, np.float32) if values is None else values
    buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x)
    kernel.set_args(buffer, np.int32(items))
    return buffer, cl.enqueue_nd_range_kernel(where or queue, kernel, (items,), local)

def told(value):
    print(json.dumps(value))
"""


def played(profile: str, script: str) -> Any:
    """What a script tells that runs on a played GPU."""
    environment = os.environ | played_environment(profile)
    command = [sys.executable, "-c", PREAMBLE + textwrap.dedent(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def probe_of(profile: str) -> Any:
    """What `farmrt probe` says where a GPU is played."""
    environment = os.environ | played_environment(profile)
    done = subprocess.run([build_farmrt(), "probe"], env=environment, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)


def probe(profile: str) -> Any:
    """What `farmrt probe` says of a played GPU."""
    return probe_of(profile)["opencl"]


@pytest.mark.slow
@pytest.mark.opencl
def test_a_gpu_may_have_the_loader_of_pixels() -> None:
    """By keys or by its profile; the last word counts."""
    found = probe_of("mali-g78:loader=pixel")["opencl"]
    assert Path(found["library"]).name == "libOpenCL-pixel.so"
    assert found["device"] == probe("mali-g78")["device"]
    assert Path(probe_of("mali-g78:loader=pixel,loader=driver")["opencl"]["library"]).name == "libplayed_gpu.so"


# --- the profile ---


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("profile", profile_names())
def test_a_shipped_profile_is_a_gpu_whose_driver_says_that_it_is_played(profile: str) -> None:
    device = probe(profile)["device"]
    assert device["type"] == "gpu"
    assert device["driver"].startswith(PLAYED)
    assert "played" not in device["name"].lower()  # the name is what a phone's driver says
    fingerprint = {"driver": device["driver"], "gpu": device["name"]}
    assert device["name"] in played_note(fingerprint) and played_note(fingerprint, "cpu") == ""


@pytest.mark.slow
@pytest.mark.opencl
def test_a_profile_may_be_any_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.gpu"
    path.write_text("# mine\nname = Mali-Mine\ncompute_units = 3 # of them\n")
    device = probe(str(path))["device"]
    assert (device["name"], device["compute_units"]) == ("Mali-Mine", 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = a\nwaves = 3\n", ":2: unknown key 'waves'"),
        ("wave = many\n", ":1: wave: a number from 0 on is wanted, not 'many'"),
        ("wave = nan\n", ":1: wave: a number"),
        ("mode = fast\n", ":1: mode: one of computing|timing is wanted"),
        ("wave = 3\n\nwave = 4\n", ":3: wave: given twice"),
        ("what is this\n", ":1: 'key = value' is wanted"),
        ("wave = 0\n", ": wave: must be above 0"),
        (f"name = {'n' * 600}\n", ":1: name: longer than"),
    ],
)
def test_a_bad_profile_is_one_line_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.gpu"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bad\.gpu") as raised:
        played_environment(str(path))
    assert told in str(raised.value)


def test_bad_keys_and_unknown_profiles_are_named() -> None:
    with pytest.raises(ConfigError, match="keys: unknown key 'moode'"):
        played_environment("adreno640:moode=timing")
    with pytest.raises(ConfigError, match="did you mean 'adreno640'"):
        played_environment("adreno64O")


def test_without_a_driver_behind_it_there_is_no_platform_and_a_reason() -> None:
    environment = os.environ | played_environment("adreno640") | {"FARM_PLAYED_OPENCL": "/nowhere/libpocl.so"}
    done = subprocess.run([build_farmrt(), "probe"], env=environment, capture_output=True, text=True, timeout=60)
    assert "no OpenCL platform" in json.loads(done.stdout)["opencl"]["error"]
    assert "/nowhere/libpocl.so" in done.stderr


# --- limits ---


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(("platforms", "name"), [(0, None), (1, "Mali-G72"), (2, "Mali-G72")])
def test_platforms(platforms: int, name: str | None) -> None:
    found = probe(f"mali-g72:platforms={platforms}")
    assert found.get("device", {}).get("name") == name


@pytest.mark.slow
@pytest.mark.opencl
def test_the_reference_finds_the_device_behind_a_platform_without_one() -> None:
    assert played("mali-g72:platforms=2", "told(device.name)") == "Mali-G72"


@pytest.mark.slow
@pytest.mark.opencl
def test_limits_refuse_with_the_right_code() -> None:
    told = played(
        "adreno640:max_allocation_mb=1,memory_mb=2,image_width=64,image_height=32,max_items_x=32",
        """
        def buffer(size):
            return cl.Buffer(context, flags.READ_WRITE, size)
        def image(width, height):
            format = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
            return cl.Image(context, flags.READ_WRITE, format, shape=(width, height))
        kept = [buffer(1 << 20), buffer(1 << 19)]
        answers = {
            "too large": code(lambda: buffer((1 << 20) + 1)),
            "no memory": code(lambda: buffer(1 << 20)),
            "image": code(lambda: image(64, 32)),
            "wide": code(lambda: image(65, 1)),
            "high": code(lambda: image(1, 33)),
            "item": code(lambda: launch(local=(64,))),
            "group": code(lambda: launch(items=60, local=(16,))),
        }
        kept.clear()
        answers["freed"] = code(lambda: buffer(1 << 20))
        told(answers)
        """,
    )
    assert told == {
        **{"too large": -61, "no memory": -4, "image": 0, "wide": -40, "high": -40, "item": -55, "group": -54},
        "freed": 0,
    }


@pytest.mark.slow
@pytest.mark.opencl
def test_a_kernels_work_group_limit_depends_on_its_registers() -> None:
    script = """
        from runtime.kernels.source import program_source
        from runtime.kernels.table import find_kernel
        SOURCE = program_source(find_kernel("conv1x1", "image"))
        def limit(options):
            kernel = cl.Kernel(build("-DPRECISION=0 -DACTIVATION=0 -DRESIDUAL=0 -DFMA=0 " + options), "conv1x1")
            return kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
        told([limit("-DBLOCKS=1 -DPIXELS=1"), limit("-DBLOCKS=2 -DPIXELS=8")])
        """
    small, large = played("adreno505:mode=timing,registers_kb=32", script)
    assert 32 <= large < small <= 256


# --- computing, and not ---


@pytest.mark.slow
@pytest.mark.opencl
def test_it_computes() -> None:
    script = """
        buffer, event = launch()
        y = np.zeros(64, np.float32)
        cl.enqueue_copy(queue, y, buffer)
        told(float(y.sum()))
        """
    assert played("adreno640", script) == 128
    assert played("adreno640:mode=timing", script) == 64


@pytest.mark.slow
@pytest.mark.opencl
def test_a_reference_and_a_release_keep_the_books() -> None:
    told = played(
        "adreno640:memory_mb=1",
        """
        buffer = cl.Buffer(context, flags.READ_WRITE, 1 << 20)
        other = cl.MemoryObject.from_int_ptr(buffer.int_ptr, True)
        buffer.release()
        held = code(lambda: cl.Buffer(context, flags.READ_WRITE, 1 << 20))
        other.release()
        told([held, code(lambda: cl.Buffer(context, flags.READ_WRITE, 1 << 20))])
        """,
    )
    assert told == [-4, 0]


# --- time ---

TIMES = """
    buffer, event = launch()
    event.wait()
    told([event.profile.end - event.profile.start, event.profile.start])
    """


@pytest.mark.slow
@pytest.mark.opencl
def test_a_launch_costs_what_the_profile_says() -> None:
    short, _ = played("adreno640:mode=timing,launch_us=10", TIMES)
    long, _ = played("adreno640:mode=timing,launch_us=60", TIMES)
    assert long - short == pytest.approx(50_000, abs=2)
    assert short >= 10_000


@pytest.mark.slow
@pytest.mark.opencl
def test_time_follows_the_clock_and_not_this_machine() -> None:
    slow, _ = played("adreno640:mode=timing,launch_us=0,clock_mhz=100,memory_gb_s=1000", TIMES)
    fast, _ = played("adreno640:mode=timing,launch_us=0,clock_mhz=200,memory_gb_s=1000", TIMES)
    assert slow == pytest.approx(2 * fast, rel=0.01)


@pytest.mark.slow
@pytest.mark.opencl
def test_all_times_may_be_slower() -> None:
    plain, _ = played("adreno640:mode=timing", TIMES)
    slow, _ = played("adreno640:mode=timing,slower=20", TIMES)
    assert slow == pytest.approx(20 * plain, rel=0.001)


@pytest.mark.slow
@pytest.mark.opencl
def test_hot_is_slower() -> None:
    script = """
        kernel = cl.Kernel(build(), "idle")
        buffer = cl.Buffer(context, flags.READ_WRITE, 64)
        kernel.set_args(buffer, np.int32(1))
        events = [cl.enqueue_nd_range_kernel(queue, kernel, (64,), (16,)) for _ in range(4)]
        queue.finish()
        told([event.profile.end - event.profile.start for event in events])
        """
    spans = played("adreno640:mode=timing,launch_us=5000,hot_after_ms=8,hot_clock_percent=50", script)
    assert spans[3] == pytest.approx(2 * spans[0], rel=0.01)


@pytest.mark.slow
@pytest.mark.opencl
def test_who_waits_waits_for_the_played_gpu() -> None:
    script = """
        build()
        begin = time.monotonic()
        launch()[1].wait()
        told(time.monotonic() - begin)
        """
    assert played("adreno640:mode=timing,launch_us=400000,pace=yes", script) >= 0.4


# --- manners ---


@pytest.mark.slow
@pytest.mark.opencl
def test_nothing_runs_before_a_flush() -> None:
    script = """
        buffer, event = launch()
        time.sleep(0.05)
        before = event.command_execution_status
        queue.flush()
        while event.command_execution_status != status.COMPLETE:
            time.sleep(0.001)
        told([before, event.command_execution_status, event.profile.start - event.profile.queued])
        """
    before, after, waited_ns = played("adreno640:flush_needed=yes", script)
    assert (before, after) == (3, 0)
    assert waited_ns >= 50_000_000
    assert played("adreno640:flush_needed=no", script)[2] < 50_000_000


@pytest.mark.slow
@pytest.mark.opencl
def test_timestamps_as_some_drivers_tell_them() -> None:
    span, start = played("adreno640:timestamp_ns=1000", TIMES)
    assert span % 1000 == start % 1000 == 0
    assert played("adreno640:timestamps=zero", TIMES) == [0, 0]
    assert played("adreno640:timestamps=reversed", TIMES)[0] < 0


@pytest.mark.slow
@pytest.mark.opencl
def test_a_queue_that_profiles_may_be_slower() -> None:
    right, _ = played("adreno640:mode=timing", TIMES)
    slow, _ = played("adreno640:mode=timing,profiling=slow", TIMES)
    assert slow - right == pytest.approx(20_000, abs=2)


@pytest.mark.slow
@pytest.mark.opencl
def test_memory_of_the_host_is_used_in_place_copied_or_fails_late() -> None:
    script = """
        x = np.ones(64, np.float32)
        buffer = cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=x)
        x[:] = 5
        y = np.zeros(64, np.float32)
        cl.enqueue_copy(queue, y, buffer)
        kernel = cl.Kernel(build(), "twice")
        kernel.set_args(buffer, np.int32(64))
        told([float(y[0]), code(lambda: cl.enqueue_nd_range_kernel(queue, kernel, (64,), (16,)))])
        """
    assert played("adreno640:host_ptr=in_place", script) == [5, 0]
    assert played("adreno640:host_ptr=copy", script) == [1, 0]
    assert played("adreno640:host_ptr=fails_late", script)[1] == -5


@pytest.mark.slow
@pytest.mark.opencl
def test_a_queue_that_died_stays_dead_and_a_new_one_works() -> None:
    told = played(
        "adreno640:dies_after_launches=2",
        """
        new = lambda: cl.CommandQueue(context)
        told([code(launch), code(launch), code(queue.finish), code(launch), code(lambda: launch(where=new()))])
        """,
    )
    assert told == [0, 0, -5, -36, 0]


@pytest.mark.slow
@pytest.mark.opencl
def test_a_reset_takes_all_that_the_process_has() -> None:
    told = played(
        "adreno640:resets_after_launches=1",
        """
        other = cl.CommandQueue(context)
        answers = [code(launch), code(queue.finish), code(lambda: launch(where=other))]
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        told([*answers, code(launch)])
        """,
    )
    assert told == [0, -5, -5, 0]


@pytest.mark.slow
@pytest.mark.opencl
def test_a_compiler_that_takes_its_time_refuses_or_crashes() -> None:
    timed = "begin = time.monotonic(); build(); told(time.monotonic() - begin)"
    assert played("adreno640:build_ms=300", timed) >= 0.3
    assert played("adreno640:build_fails_on=DBAD", "told([code(build), code(lambda: build('-DBAD'))])") == [0, -11]
    assert played("adreno640:max_registers=1", "told(code(build))") == -11
    with pytest.raises(AssertionError):
        played("adreno640:build_crashes_on=DBAD", "told(code(lambda: build('-DBAD')))")


@pytest.mark.slow
@pytest.mark.opencl
def test_a_binary_is_good_until_the_driver_is_updated(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    save = f"open({str(path)!r}, 'wb').write(build('-DA=1').get_info(cl.program_info.BINARIES)[0]); told(0)"
    load = f"""
        program = cl.Program(context, [device], [open({str(path)!r}, 'rb').read()])
        SOURCE = ""
        kernel = cl.Kernel(program.build(cache_dir=False), "twice")
        buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.ones(64, np.float32))
        kernel.set_args(buffer, np.int32(64))
        y = np.zeros(64, np.float32)
        cl.enqueue_nd_range_kernel(queue, kernel, (64,), (16,))
        cl.enqueue_copy(queue, y, buffer)
        told(float(y.sum()))
        """
    played("adreno640", save)
    assert played("adreno640", load) == 128
    refused = f"told(code(lambda: cl.Program(context, [device], [open({str(path)!r}, 'rb').read()])))"
    assert played("adreno640:driver=OpenCL 2.0 after the update", refused) == -42


# --- the model ---


@pytest.fixture(scope="module")
def model() -> PlayedModel:
    return PlayedModel(played_environment("adreno640"))


OPTIONS = "-DPRECISION=0 -DBLOCKS={} -DPIXELS={} -DFMA=0"
ARGUMENTS = {"rows": 56, "width": 56, "in_c": 64, "out_c": 128}


def test_a_larger_tile_reads_less_and_holds_more(model: PlayedModel) -> None:
    small = model.launch_ns("conv1x1", "image", OPTIONS.format(1, 1), ARGUMENTS, (32, 56, 56), (4, 8, 2))
    middle = model.launch_ns("conv1x1", "image", OPTIONS.format(1, 4), ARGUMENTS, (32, 16, 56), (4, 8, 2))
    assert middle < small


def test_a_launch_whose_lanes_lie_idle_is_slower(model: PlayedModel) -> None:
    def at(local: tuple[int, int, int]) -> float:
        return model.launch_ns("conv1x1", "image", OPTIONS.format(1, 4), ARGUMENTS, (32, 16, 56), local)

    assert at((4, 8, 2)) < at((1, 1, 1)) / 4


def test_weights_in_constant_memory_are_read_beside_the_cache_where_a_wave_reads_the_same(model: PlayedModel) -> None:
    def at(local: tuple[int, int, int], options: str = "", channels: int = 64) -> float:
        arguments = {"rows": 56, "width": 56, "in_c": channels, "out_c": 128}
        return model.launch_ns("conv1x1", "image", OPTIONS.format(2, 1) + options, arguments, (16, 56, 56), local)

    constant = " -DCONSTANT=1"
    assert at((1, 8, 8), constant) < at((1, 8, 8))
    assert at((16, 4, 1), constant) > at((16, 4, 1)), "address by address"
    assert at((1, 8, 8), constant, 4096) == at((1, 8, 8), "", 4096), "there is no room"


def test_every_tuned_kernel_has_its_costs() -> None:
    described = {tuple(name.split()) for name in described_kernels()}
    generic = {"unary", "binary", "copy", "pad", "scale_shift", "resize_nearest", "resize_bilinear", "normalization"}
    generic |= {"lookup", "binary_bytes", "pool_bytes", "gather", "elements"}
    heavy = {(kernel.name, str(kernel.memory)) for kernel in KERNELS if kernel.tunable and kernel.name not in generic}
    assert heavy - described == {("recurrent_sequence", "buffer"), ("recurrent_step", "buffer")}


def test_the_library_is_compiled_once(capfd: pytest.CaptureFixture[str]) -> None:
    library = build_library()
    changed_ns = library.stat().st_mtime_ns
    assert build_library().stat().st_mtime_ns == changed_ns


def test_the_documentation_has_every_key() -> None:
    header = (SOURCES / "profile.h").read_text()
    keys = re.findall(r"^    X\(\w+, (\w+),", header, re.MULTILINE)
    documented = set(re.findall(r"`(\w+)`", (ROOT / "docs/emulation.md").read_text()))
    assert len(keys) > 40
    assert not set(keys) - documented
