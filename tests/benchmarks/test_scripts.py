"""Benchmarks that are one script: reports, scaling, transfer, ports, sizes and instructions say what they measure."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks import in_order, instructions, ports, sizes
from benchmarks.reporting import fill, in_a_process, spent
from benchmarks.scaling import durations, ideal_s
from benchmarks.sizes import Choice
from benchmarks.transfer import Load, Timing, measure, table
from farm.jobs.build import BuildOptions, Built
from farm.store import Store
from runtime.lowering.lower import lower
from runtime.native.features import EVERYTHING, Features
from runtime.target import Target
from runtime.types import Precision
from tests.conftest import require
from tests.farm.report import nights
from tests.native import qemu
from tests.runtime.graphs import GraphMaker


@pytest.mark.slow
def test_a_reports_time_memory_and_size_are_measured() -> None:
    found = in_a_process(20, 8)
    assert found.files > 20
    assert found.report_bytes > 1_000_000
    assert found.wall_s > 0 and found.cpu_s > 0 and found.peak_bytes > 10_000_000


@pytest.mark.slow
def test_a_store_has_as_many_series_and_nights_as_asked_and_is_judged(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store:
        last = fill(store, 500, 9)  # more than the phones that differ have
        points = store.series()
    assert 500 <= len(points) < 510 and {len(each) for each in points.values()} == {9}
    assert {each[-1].run for each in points.values()} == {last}
    found = spent(500, 9, str(tmp_path / "farm.db"))
    assert found.judging_s > 0 and found.series == len(points) < found.files


def test_made_up_nights_have_as_many_series_and_points_as_asked() -> None:
    made = nights.many(100, 12)
    assert len(made.series) == 100
    assert {len(each.points) for each in made.series} <= {2, 11, 12}


def test_no_schedule_is_shorter_than_its_longest_job_or_its_share() -> None:
    assert ideal_s([1.0, 1.0, 1.0, 1.0], 2) == 2.0
    assert ideal_s([5.0, 1.0], 2) == 5.0


def test_jobs_are_the_same_each_time_and_about_as_long_as_asked() -> None:
    found = durations(1000, 2.0)
    assert found == durations(1000, 2.0)
    assert sum(found) / 1000 == pytest.approx(2.0, rel=0.05)
    assert min(found) >= 1.0 and max(found) <= 3.0


LOADS = (Load("one", 1, 1000), Load("some", 3, 10))


def test_every_way_gets_new_files_in_turns_and_the_first_round_does_not_count(tmp_path: Path) -> None:
    sent: list[tuple[str, str, list[int]]] = []

    def way(name: str) -> Callable[[Sequence[Path], str], Callable[[], object]]:
        return lambda files, into: lambda: sent.append((name, into, [file.stat().st_size for file in files]))

    timings = measure({"a": way("a"), "b": way("b")}, LOADS, 2, tmp_path)
    assert [name for name, _, sizes in sent if sizes == [1000]] == ["a", "b", "b", "a", "a", "b"]
    assert len({into for _, into, _ in sent}) == len(sent) == 12
    assert [(each.load, each.way, len(each.seconds)) for each in timings] == [
        ("one", "a", 2),
        ("one", "b", 2),
        ("some", "a", 2),
        ("some", "b", 2),
    ]


def test_the_table_compares_medians_with_the_reference() -> None:
    timings = [Timing("one", "scp", [2.0, 9.0, 1.0]), Timing("one", "farm", [4.0, 1.0, 1.0])]
    _, scp, farm = table(timings, LOADS[:1], "scp").splitlines()
    assert scp.split()[2:5] == ["2.000", "s", "1.000-9.000"]
    assert scp.endswith("100%")
    assert farm.endswith("200%")


ASSEMBLY = """\
first:                                  // @first
.LBB0_1:                                // =>This Inner Loop Header: Depth=1
\tldr\tq4, [x0], #16
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tfmla\tv1.4s, v4.4s, v5.s[1]
\tfmla\tv2.4s, v4.4s, v5.s[2]
\tfmla\tv3.4s, v4.4s, v5.s[3]
\tsubs\tx1, x1, #1
\tb.ne\t.LBB0_1
.LBB0_2:
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tcbnz\tw2, .LBB0_1
second:
.LBB1_1:
\tfmla\tv0.4s, v4.4s, v5.s[0]
\tcbnz\tw2, .LBB1_1
"""
LARGEST = {"cpu_lanes_product_generic_8": "product_5_2", "cpu_lanes_product_generic_16": "product_5_1"}


def test_loops_are_runs_that_end_where_they_began() -> None:
    (loop,) = ports.loops(ASSEMBLY)
    assert (loop.function, len(loop.lines), len(loop.products)) == ("first", 7, 4)
    assert ports.largest([loop, ports.Loop("first", loop.lines[:2])]) == [loop]


def test_unrolled_runs_of_loops_with_branches_are_looked_at() -> None:
    body = "\tfmla\tv0.4s, v4.4s, v5.4s\n" * ports.UNROLLED_PRODUCTS
    (run,) = ports.loops(f"third:\n.LBB2_1:\n{body}\t//APP\n\tb.ne\t.LBB2_3\n\tb\t.LBB2_1\n")
    assert (run.function, run.whole, len(run.lines)) == ("third", False, ports.UNROLLED_PRODUCTS + 1)


ADD = "fadd v%d.4s, v%d.4s, v31.4s"
MEASURED = {  # on a Cortex-A53: benchmarks/in_order.py
    "ldr q0, [x1]": 2,
    f"ldr q0, [x1]; {ADD % (2, 0)}": 5,
    f"ldr q0, [x1]; ldr q1, [x1]; {ADD % (2, 0)}": 5,
    f"ldr q0, [x1]; ldr q1, [x1]; {ADD % (2, 1)}": 7,
    f"ldp q0, q1, [x1]; {ADD % (2, 1)}": 7,
    f"ldp q0, q1, [x1]; ldp q2, q3, [x1]; {ADD % (4, 2)}": 9,
    f"ldp q0, q1, [x1]; ldp q2, q3, [x1]; {ADD % (4, 3)}": 11,
    f"ldr d0, [x1]; {ADD % (2, 0)}": 4,
    f"ldr d0, [x1]; {ADD % (2, 2)}": 2,
    f"{ADD % (2, 2)}; ldr d0, [x1]": 2,
    "fadd v2.2s, v2.2s, v2.2s; ldr d0, [x1]": 1,
    f"ldr x0, [x1]; {ADD % (2, 2)}": 2,
    f"{ADD % (2, 2)}; ldr x0, [x1]": 1,
    "ldr d0, [x1]; ins v1.d[1], x0": 1,
    f"ins v0.d[1], x0; {ADD % (2, 0)}": 3,
    "ldp d0, d1, [x1]": 2,
    f"stp q0, q1, [x1]; {ADD % (2, 2)}": 3,
    f"str q1, [x1]; {ADD % (2, 2)}": 2,
}


@pytest.mark.parametrize("code", MEASURED)
def test_a_core_in_order_issues_as_was_measured(code: str) -> None:
    assert in_order.issue([in_order.parse(line) for line in code.split("; ")]) == MEASURED[code]


def test_a_compiled_loop_takes_as_long_as_was_measured() -> None:
    """An iteration of y = a x + b in place, on eight floats."""
    sums = [f"f{name} v{i}.4s, v{i}.4s, v{by}" for name, by in (("mul", "2.s[0]"), ("add", "3.4s")) for i in (0, 1)]
    count = ["add x9, x8, x10", "add x10, x10, #32", "cmp x10, x11"]
    loop = [*count, "ldp q0, q1, [x9]", *sums, "stp q0, q1, [x9]", "b.ne .L1"]
    assert in_order.cycles(loop) == 16


def test_the_share_of_waits_is_that_of_loads_used_at_once() -> None:
    load, sums = "\tldr\tq0, [x1], #16", [f"\tfmla\tv{i}.4s, v0.4s, v9.s[0]" for i in range(1, 5)]
    assert ports.rules(ports.Loop("early", (load, *sums))) == pytest.approx((4 / 8, 2 / 8))
    assert ports.rules(ports.Loop("late", (*sums[:2], load, *sums[2:]))) == pytest.approx((4 / 8, 2 / 8))
    assert ports.rules(ports.Loop("unread", (load, *(line.replace("v0", "v8") for line in sums)))) == (4 / 6, 0)


def near_loads(loop: ports.Loop) -> int:
    """Loads with fewer than four multiply-adds before what is loaded is read."""
    found = 0
    for place, line in enumerate(loop.lines):
        load, products = in_order.parse(line), 0
        for later in loop.lines[place + 1 :] if load.is_load else ():
            if in_order.parse(later).reads & load.writes.keys():
                found += products < 4
                break
            products += later in loop.products
    return found


@pytest.mark.slow
def test_the_largest_tiles_fill_the_units_of_cortex_a76_and_load_ahead() -> None:
    require("llvm-mca", "" if shutil.which("llvm-mca") else "no llvm-mca: apt install llvm")
    found = {
        unit: loop
        for unit, assembly in ports.assemblies("arm64")
        for loop in ports.largest(list(ports.loops(assembly)))
        if LARGEST.get(unit) == loop.function
    }
    assert found.keys() == LARGEST.keys()
    for unit, loop in found.items():
        assert ports.use("llvm-mca", "neoverse-n1", loop) > 0.9, unit
        assert ports.rules(loop) == (pytest.approx(0.63, abs=0.03), 0), unit
        assert near_loads(loop) <= 4, (unit, loop.lines)


ROWS = [
    Choice("all of it", EVERYTHING),
    Choice("`--only-operators` one, `runtime: cpu+gpu`", Features(operators=frozenset({"pool", "copy"}))),
    Choice("`--only-operators` two, `runtime: cpu+gpu`", Features(operators=frozenset({"copy", "pool"}))),
]


def test_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Features]] = []

    def build(abi: str, options: BuildOptions) -> Built:
        asked.append((abi, options.features))
        size = 1000 if options.features.operators is None else 600
        return Built(abi, "", size, f"cc for {abi}", 0.0, "", "", "", size // 2, (), None)

    monkeypatch.setattr(sizes, "build", build)
    lines = list(sizes.page(ROWS, ["host", "arm64"], sizes.measured(ROWS, ["host", "arm64"])))
    assert len(asked) == 4
    assert "| all of it | 1,000 | 1,000 |" in lines and "| all of it | 500 | 500 |" in lines
    assert "| `--only-operators` two, `runtime: cpu+gpu` | 600 | 600 |" in lines
    assert "(host: cc for host; arm64: cc for arm64)" in lines[0]


def test_the_page_has_its_place_and_a_row_for_each_network() -> None:
    text = Path(sizes.PAGE).read_text()
    table = text.partition(sizes.BEGIN)[2].partition(sizes.END)[0]
    for network in sizes.NETWORKS:
        assert all(f"| `--only-operators` {network}, `runtime: {runtime}` | " in table for runtime in sizes.RUNTIMES)


BLOCK_A = b"IN: main\n0x00401000:  d2800000  mov\n0x00401004:  d65f03c0  ret\n\n"
BLOCK_B = b"IN: \n0x00402000:  d65f03c0  ret\n\n"
TRACE = b"Trace 0: 0x7f0 [00000000/%016x/00000000/00000000] \n"


def log_of(*parts: bytes) -> list[bytes]:
    return b"".join(parts).splitlines(keepends=True)


def test_each_entry_counts_its_block() -> None:
    enter_a, enter_b = TRACE % 0x401000, TRACE % 0x402000
    assert instructions.count(log_of(BLOCK_A, enter_a, BLOCK_B, enter_b, enter_a, enter_a)) == 3 * 2 + 1


def test_a_block_that_is_translated_again_counts_as_it_was_before() -> None:
    longer = BLOCK_A.replace(b"\n\n", b"\n0x00401008:  d503201f  nop\n\n")
    assert instructions.count(log_of(BLOCK_A, TRACE % 0x401000, longer, TRACE % 0x401000)) == 2 + 3


@pytest.mark.slow
def test_a_round_on_arm64() -> None:
    require("qemu", qemu.missing("arm64"))
    maker = GraphMaker()
    graph = maker.finish(maker.conv(maker.input(1, 64, 6, 6), 64, k=1))
    plan = lower(graph, Target("any", "arm64", memory="cpu", precision=Precision.FP16))
    floats, halves = (instructions.of_a_round("arm64", plan, "neoverse-n1", isa) for isa in ("generic", "fp16"))
    assert 1_000 < halves < floats < 10_000_000
