"""Whole jobs on played GPUs: right, or refused with a reason, and never an OpenCL error that nobody handles."""

import json
from pathlib import Path
from typing import Any

import pytest

from farm.config import deployment
from farm.emulation import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.emulation.played_gpu import played_environment, profile_names
from farm.jobs.fleet.opening import open_unit
from farm.jobs.models.prepare import prepare
from farm.model.fetch import Fetcher
from farm.units import lookup
from farm.units.selection import Selection
from runtime.kernels.source import build_options
from runtime.lowering.assembly import size3
from runtime.lowering.choice import Place
from runtime.plan.artifacts import TunedEntry, TunedSet, encode_tuned, fingerprint_of
from runtime.plan.plan import Plan
from tests import opencl
from tests.farm.conftest import CallFarm
from tests.farm.jobs.choices.test_model_choice import keep
from tests.farm.jobs.test_execution import SMALL, row_of

# Each network of the zoo, narrow and small.
SIZES = {
    **dict.fromkeys(("mobilenet_v1", "mobilenet_v2", "squeezenet_v11", "resnet50"), 64),
    **dict.fromkeys(("mobilenet_v3_large", "efficientnet_lite0"), 64),
    **{"inception_v3": 96, "vit_tiny": 48, "bert_mini": 9, "llama_small_prefill": 9, "llama_small_decode": 21},
}
ZOO = """\
library_name: small
target_abis: [host]
models:
  small:
    platform: onnx
    model_file_path: zoo://{network}?width=0.25&size={size}&classes=10
    runtime: gpu
    data_type: fp32_fp32
"""
# Of images any number may be given at once.
SHAPE = """\
    subgraphs:
      - input_tensors: [input]
        input_shapes: ["1,3,{size},{size}"]
        output_tensors: [prob]
"""
DEPLOYMENT = SMALL.replace("    limit_opencl_kernel_time: 1\n", "")
# What a plan must be made otherwise for: no images, small ones, allocations that hold no two tensors.
NARROW = ("adreno640:image_width=0", "adreno640:image_width=64,image_height=64", "mali-g72:max_allocation_mb=1")
# One of each maker, and one whose registers are so few that planned work groups are too large for its kernels.
SOME = ("adreno640", "mali-g72", "powervr-ge8320", "mali-g52:registers_kb=12")
# `farm tune` on three of them in a run, and without any result computed.
TUNED = [
    *(profile for number in range(3) for profile in opencl.turn(number, profile_names()[number::3])),
    "mali-g52:registers_kb=12",
    "mali-g72:mode=timing",
]
# What farm does about a GPU's manners, by commands in turns: a row that says why, or a plan that works.
COMMANDS = {
    "run": ("run", "small.yml", "--round", "1", "--warmup", "0", "--validate"),
    "benchmark": ("benchmark", "small.yml", "--round", "2", "--warmup", "0"),
    "tune": ("tune", "small.yml", "--budget", "5"),
}
REFUSED = (
    ("mali-g72:dies_after_launches=3", "(-5)"),
    ("mali-g72:resets_after_launches=3", "runtime: cpu may work"),
    ("mali-g72:memory_mb=1", "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
    ("mali-g72:platforms=0", "set runtime: cpu"),
    ("mali-g72:build_fails_on=conv1x1", "set runtime: cpu+gpu"),
    ("adreno640:build_crashes_on=conv", "set runtime: cpu+gpu"),
)
MENDED = (
    ("mali-g72:max_registers=40", "conv2d"),
    ("mali-g72:build_crashes_on=conv1x1", "conv1x1 buffer"),
    ("mali-g72:build_fails_on=conv1x1", "conv1x1 buffer"),
    ("adreno640:build_fails_on=read_image", "buffer_to_image image"),
    ("mali-g72:resets_after_launches=40,once={once}", ""),
    ("adreno640:dies_after_launches=40,once={once}", ""),
)
IMAGES = [network for network, size in SIZES.items() if size >= 48]


def zoo_deployment(network: str, size: int) -> str:
    return (ZOO + SHAPE * (network in IMAGES)).format(network=network, size=size)


# What a network must be right in spite of.
MANNERS = (
    "",
    "flush_needed=yes",
    "timestamps=zero",
    "timestamps=reversed",
    "profiling=slow",
    "host_ptr=copy",
    "host_ptr=fails_late",
    "build_ms=5",
    "image_width=0",
    "image_width=64,image_height=64",
    "registers_kb=12",
    "platforms=2",
    "max_items_x=8,max_items_y=4,max_items_z=2",
)
# All of them take hours: in a run each network has one profile with one manner, in turns.
NETWORKS_ON_PROFILES = [
    (network, profile, manner)
    for number, network in enumerate(SIZES)
    for place, profile in enumerate(opencl.turn(number, profile_names()))
    for manner in opencl.turn(number + place, MANNERS, exhaustive=False)
]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, own_folder: Path) -> Any:
    """Lets the host's GPU be a played one."""

    def choose(profile: str, deployment: str = DEPLOYMENT) -> None:
        for name, value in played_environment(profile).items():
            monkeypatch.setenv(name, value)
        (own_folder / "small.yml").write_text(deployment)

    return choose


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("profile", [*SOME, *NARROW])
def test_a_small_network_is_right_and_its_row_says_that_it_was_played(farm: CallFarm, play: Any, profile: str) -> None:
    play(profile)
    status, shown, said = farm("run", "small.yml", "--round", "1", "--warmup", "0", "--validate", "--json")
    row = row_of((status, shown, said))
    assert (status, row["status"]) == (0, "ok"), row["reason"]
    assert row["fingerprint"]["driver"].startswith("played; ")
    assert "played: " in farm("run", "small.yml", "--round", "1", "--warmup", "0")[1]
    assert (row["smaller_groups"] > 0) == ("registers_kb" in profile)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(("network", "profile", "manner"), NETWORKS_ON_PROFILES)
def test_networks_are_right_on_every_profile(
    farm: CallFarm, play: Any, network: str, profile: str, manner: str
) -> None:
    deployment = zoo_deployment(network, SIZES[network])
    if network not in IMAGES:  # words are looked up by the CPU
        deployment = deployment.replace("runtime: gpu", "runtime: cpu+gpu")
    play(f"{profile}:{manner}", deployment)
    words = ("--round", "1", "--warmup", "0", "--validate", "--json")
    rows = {row["runtime"]: row for row in json.loads(farm("run", "small.yml", *words)[1])["rows"]}
    assert rows["gpu"]["status"] == "ok", rows["gpu"]["reason"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("profile", TUNED)
def test_tuning_ends_with_a_row_on_a_played_gpu(farm: CallFarm, play: Any, profile: str) -> None:
    play(profile)
    status, shown, said = farm("tune", "small.yml", "--budget", "10", "--json")
    row = row_of((status, shown, said))
    assert row["status"] == "ok" and "the driver fails on" not in said, row["reason"]
    assert row["outcome"] in ("published", "kept", "no change", "not tuned"), row["reason"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("command", "profile", "reason"),
    [
        (command, profile, reason)
        for number, (profile, reason) in enumerate(REFUSED)
        for command in opencl.turn(number, list(COMMANDS))
    ],
)
def test_a_gpu_that_fails_is_a_row_with_its_reason(
    farm: CallFarm, play: Any, command: str, profile: str, reason: str
) -> None:
    """In one line that says what may work; the check of this machine's drivers needs less of the GPU."""
    play(profile)
    status, shown, said = farm(*COMMANDS[command], "--json")
    row = row_of((status, shown, said))
    assert (status, row["status"] not in ("ok", "")) == (1, True)
    assert reason in row["reason"] and "\n" not in row["reason"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("command", "profile", "figure"),
    [
        (command, profile, figure)
        for number, (profile, figure) in enumerate(MENDED)
        for command in opencl.turn(number, list(COMMANDS))
    ],
)
def test_a_plan_without_what_a_driver_refuses_is_right(
    farm: CallFarm, play: Any, own_folder: Path, command: str, profile: str, figure: str
) -> None:
    """Other variants, buffers in place of images, the CPU for one operator, a fresh farmrt after a reset."""
    play(profile.format(once=own_folder / "once"), DEPLOYMENT.replace("runtime: gpu", "runtime: cpu+gpu"))
    rows = {row["runtime"]: row for row in json.loads(farm(*COMMANDS[command], "--json")[1])["rows"]}
    assert rows["gpu"]["status"] == "ok", rows["gpu"]["reason"]
    if command == "run":
        assert any(figure in name for name in rows["gpu"]["refused_kernels"]) == bool(figure)


NIGHT = """\
name: night
models: [small.yml]
units: [{device: host}]
jobs: [benchmark]
repeats: 2
rounds: 2
"""


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    "command",
    [
        ("nightly", "night.yml"),
        ("opbench", "--device", "host", "--filter", "^softmax/buffer", "--precision", "fp32", "--min-time", "0.01"),
    ],
)
def test_a_queue_that_dies_once_takes_nothing_else_along(
    farm: CallFarm, play: Any, own_folder: Path, command: tuple[str, ...]
) -> None:
    """Not the later blocks of a night, nor the launches that are timed after it in the same process."""
    play(f"adreno640:dies_after_launches=40,once={own_folder / 'once'}")
    (own_folder / "night.yml").write_text(NIGHT)
    document = json.loads(farm(*command, "--json")[1])
    assert (own_folder / "once").exists()
    assert document["rows"] and {row["status"] for row in document["rows"]} == {"ok"}, document["rows"]


def keep_tuned(path: Path, plan: Plan) -> str:
    """A file that tuning would leave, with one launch by a variant that the plan has nowhere; its build options."""
    own = {step.variant for step in plan.steps}
    step = next(step for step in plan.steps if step.tuning_key and step.kernel.name == "conv1x1")
    variant = next(
        each
        for each in step.kernel.variants
        if each not in own and not step.kernel.misfit(step.dims, each, plan.target)
    )
    items = size3(step.kernel.work_items(step.dims, variant), 1)
    options = build_options(variant, plan.target.precision, step.defines)
    block = step.kernel.block(variant) if step.kernel.block else 0
    entry = TunedEntry(step.tuning_key, "conv1x1", options, block, step.work_dim, items, (0, 0, 0), 100, 50)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_tuned([TunedSet(fingerprint_of(plan.target), "host", (entry,))]))
    return " ".join(f"-D{key}={value}" for key, value in variant.defines)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("kind", ["tuned", "selection"])
def test_what_tuning_kept_is_passed_over_where_the_driver_refuses_it_now(
    farm: CallFarm, play: Any, own_folder: Path, kind: str
) -> None:
    """A launch on which its compiler crashes, a plan on images that it reads no more; found out in the first run."""
    words = ("run", "small.yml", "--round", "1", "--warmup", "0", "--validate", "--json")
    play("mali-g72")
    source = deployment.load(own_folder / "small.yml")
    prepared = prepare(source, "small", Fetcher(source))
    (unit,) = lookup.chosen_units(Selection(devices=("host",)))
    with open_unit(unit) as opened:
        planner, refused = opened.planner, "read_image"
        target = planner.target(prepared, "gpu")
        if kind == "tuned":
            refused = keep_tuned(planner.artifact_files("small")[0], planner.plan(prepared, "gpu", target)[0])
        else:
            keep(planner.selection_file("small"), prepared, target, Place.IMAGE)
    row = row_of(farm(*words))
    assert row["status"] == "ok" and row[kind]["match"] == "exact" and not row["refused_kernels"], row["reason"]
    play(f"mali-g72:build_crashes_on={refused}")
    for _ in range(2):
        row = row_of(farm(*words))
        assert row["status"] == "ok" and row["refused_kernels"], row["reason"]
        assert row["tuned"]["used"] == 0 if kind == "tuned" else row["selection"]["match"] == "none", row[kind]
    row = row_of(farm("tune", "small.yml", "--budget", "10", "--json"))
    assert row["status"] == "ok", row["reason"]


@pytest.mark.slow
@pytest.mark.opencl
def test_a_gpu_that_dies_does_not_concern_the_row_of_the_cpu(farm: CallFarm, play: Any) -> None:
    play("mali-g72:dies_after_launches=3", DEPLOYMENT.replace("runtime: gpu", "runtime: cpu+gpu"))
    rows = json.loads(farm("run", "small.yml", "--round", "1", "--json")[1])["rows"]
    assert {row["runtime"]: row["status"] == "ok" for row in rows} == {"cpu": True, "gpu": False}


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    "keys", ["build_ms=300", "driver=OpenCL 2.0 after the update", "profiling=slow", "host_ptr=fails_late"]
)
def test_slow_compilers_queues_and_updates_change_no_result(farm: CallFarm, play: Any, keys: str) -> None:
    """Each follows a run on the same GPU without it."""
    words = ("run", "small.yml", "--round", "1", "--warmup", "0", "--validate", "--json")
    play("mali-g72")
    assert row_of(farm(*words))["status"] == "ok"
    play(f"mali-g72:{keys}")
    row = row_of(farm(*words))
    assert row["status"] == "ok", row["reason"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("timestamps=zero", "its events tell no times"),
        ("timestamps=reversed", "its events tell no times"),
        ("profiling=hangs", "its queue that profiles hangs"),
    ],
)
def test_operators_have_times_whatever_the_clock_of_events_tells(
    farm: CallFarm, play: Any, keys: str, told: str
) -> None:
    """A queue that hangs costs less than a round may take, and not the row."""
    play(f"mali-g72:{keys}")
    words = ("benchmark", "small.yml", "--round", "2", "--warmup", "0", "--round-limit", "10", "--json")
    row = row_of(farm(*words))
    assert row["status"] == "ok", row["reason"]
    assert row["timed_by_host"] == told
    assert sum(operator["avg_ms"] > 0 for operator in row["ops"]) > len(row["ops"]) / 2


@pytest.mark.slow
@pytest.mark.opencl
def test_a_process_of_its_own_runs_without_what_a_driver_refuses(farm: CallFarm, play: Any) -> None:
    """The example application does not tell why a program is not built; so a farmrt has loaded the model before."""
    play("mali-g72:max_registers=40")
    row = row_of(farm("run", "small.yml", "--example", "--round", "1", "--warmup", "0", "--json"))
    assert row["status"] == "ok", row["reason"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("profile", ["mali-g72", "adreno640"])
@pytest.mark.parametrize(
    ("network", "size", "limit_mb", "what"),
    [("resnet50", 64, 0.1, "weights"), ("mobilenet_v1", 256, 0.5, "tensor")],
    ids=["weights", "activations"],
)
def test_a_tensor_above_the_largest_allocation_is_refused_in_one_line(
    farm: CallFarm, play: Any, profile: str, network: str, size: int, limit_mb: float, what: str
) -> None:
    """And runs on the CPU of the same device; on images only the layers with too many weights do."""
    deployment = zoo_deployment(network, size).replace("runtime: gpu", "runtime: cpu+gpu")
    play(f"{profile}:max_allocation_mb={limit_mb}", deployment)
    words = ("--round", "1", "--warmup", "0", "--validate", "--json")
    rows = {row["runtime"]: row for row in json.loads(farm("run", "small.yml", *words)[1])["rows"]}
    assert rows["cpu"]["status"] == "ok", rows["cpu"]["reason"]
    reason = rows["gpu"]["reason"]
    if (profile, what) == ("adreno640", "weights"):
        assert rows["gpu"]["status"] == "ok", reason
        return
    assert rows["gpu"]["status"] == "unsupported" and what in reason and "\n" not in reason
    assert f"the device allocates {int(limit_mb * 2**20)} at most" in reason and "runtime: cpu" in reason


@pytest.mark.slow
@pytest.mark.opencl
def test_an_emulated_phone_has_the_gpu_that_it_plays() -> None:
    with emulated_phone_unit("mate", PhoneSettings(soc="kirin970", gpu="mali-g72")) as unit, open_unit(unit) as opened:
        device = opened.probe.opencl.device
        assert device and (device.name, device.compute_units) == ("Mali-G72", 12)


@pytest.mark.parametrize(
    ("gpu", "told"),
    [("xclipse94", "did you mean 'xclipse940'?"), ("mali-g72:mode=fast", "one of computing|timing is wanted")],
)
def test_a_phone_with_a_gpu_that_cannot_be_played_is_refused_in_one_line(farm: CallFarm, gpu: str, told: str) -> None:
    status, _, said = farm("emulate", "phone", "--port", "0", "--gpu", gpu)
    assert status == 2 and said.count("\n") == 1
    assert said.startswith("error: --gpu") and told in said
