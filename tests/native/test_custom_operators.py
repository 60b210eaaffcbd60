"""farmrt and libraries of users' CPU operators: what it opens, what it refuses, and what it checks of a step."""

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from farm.operators.modules import load_file
from runtime.convert import convert
from runtime.custom.c_library import HEADERS, c_kernel, c_kernels, operators_library
from runtime.custom.registry import register
from runtime.lowering.lower import lower
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Arg, Plan
from runtime.plan.records import ArgKind
from runtime.target import Target
from tests.native.farmrt import Farmrt

MODULE = Path(__file__).parents[2] / "examples" / "custom_operators" / "acme_operators.py"
SHAPE = [2, 3, 5]


@pytest.fixture(scope="module")
def plan() -> Plan:
    proto = helper.make_graph(
        [helper.make_node("GatedActivation", ["x", "gate"], ["out"], "node", domain="com.acme")],
        "model",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "gate")],
        [onnx.ValueInfoProto(name="out")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    graph, _ = convert(helper.make_model(proto, opset_imports=opsets), custom=register(load_file(MODULE)))
    return lower(graph, Target("host", "host", memory="cpu"))


@pytest.fixture(scope="module")
def library(plan: Plan) -> Path:
    return operators_library(c_kernels(plan), "host")


def compiled(folder: Path, text: str) -> Path:
    """A library made of C that we write here."""
    (folder / "own.c").write_text(text)
    made = folder / "own.so"
    subprocess.run(["cc", f"-I{HEADERS}", "-shared", "-fPIC", str(folder / "own.c"), "-o", str(made)], check=True)
    return made


def load(cpu: Farmrt, plan: Plan, **options: object) -> dict[str, Any]:
    return cpu.load_files(encode_plan(plan), plan.data, **options)


def with_int(plan: Plan, index: int, value: int) -> Plan:
    """The plan with another value for one of the integers behind the step's tensors."""
    (step,) = plan.steps
    args = list(step.args)
    args[2 * len(step.kernel.tensors) + index] = Arg(ArgKind.INT, value)
    return dataclasses.replace(plan, steps=(dataclasses.replace(step, args=tuple(args)),))


def test_the_function_computes_what_the_reference_does_on_any_number_of_threads(
    cpu: Farmrt, plan: Plan, library: Path
) -> None:
    random = np.random.default_rng(3)
    x, gate = (random.normal(size=SHAPE).astype(np.float32) for _ in range(2))
    for threads in (1, 2, 5):
        cpu.run_loaded(load(cpu, plan, operators=library, threads=threads), {"x": x, "gate": gate}, rounds=3)
        np.testing.assert_allclose(cpu.output("out").reshape(SHAPE), x / (1 + np.exp(-gate)), rtol=1e-5)


def test_a_plan_does_not_load_without_its_library_or_with_another(
    cpu: Farmrt, plan: Plan, library: Path, tmp_path: Path
) -> None:
    answer = load(cpu, plan)
    assert answer["error"] == "unsupported" and "the library of custom operators is not given" in answer["message"]
    folder = tmp_path / "other"
    folder.mkdir()
    for file in ("acme_operators.py", "gated.cl", "gated.c"):
        (folder / file).write_text((MODULE.parent / file).read_text())
    with (folder / "gated.c").open("a") as file_of_c:
        file_of_c.write("/* another version */\n")
    (changed,) = load_file(folder / "acme_operators.py")
    answer = load(cpu, plan, operators=operators_library([c_kernel(changed)], "host"))
    assert answer["error"] == "unsupported" and "another version of it" in answer["message"]
    assert load(cpu, plan, operators=library)["ok"]


def test_a_library_is_a_file_that_was_named_never_one_of_the_system(cpu: Farmrt, plan: Plan) -> None:
    answer = load(cpu, plan, operators="libm.so.6")
    assert answer["error"] == "io" and "./libm.so.6: cannot open shared object file" in answer["message"]


TABLE = """
#include "farmrt_operators.h"
static void run(const rt_operator_arguments *a, int64_t first, int64_t end) {{ (void)a; (void)first; (void)end; }}
static const rt_user_operator one = {{{row}}};
static const rt_user_operator *const rows[] = {{{rows}}};
const rt_operator_table farm_operators = {{{table}}};
"""
ROW = '"name", "44", 0, 0, run'


@pytest.mark.parametrize(
    ("row", "rows", "table", "told"),
    [
        (ROW, "&one", "2, 1, rows", "a table of operators that this farmrt does not know"),
        (ROW, "&one", "1, 2000, rows", "a table of operators that this farmrt does not know"),
        (ROW, "&one", "1, 1, 0", "a table of operators that this farmrt does not know"),
        (ROW, "0", "1, 1, rows", "operator 0 is damaged"),
        ('0, "44", 0, 0, run', "&one", "1, 1, rows", "operator 0 is damaged"),
        ('"name", "43", 0, 0, run', "&one", "1, 1, rows", "operator 0 is damaged"),
        ('"name", "4444444", 0, 0, run', "&one", "1, 1, rows", "operator 0 is damaged"),
        ('"name", "", 0, 0, run', "&one", "1, 1, rows", "operator 0 is damaged"),
        ('"name", "44", 95, 0, run', "&one", "1, 1, rows", "operator 0 is damaged"),
        ('"name", "44", 0, 9, run', "&one", "1, 1, rows", "operator 0 is damaged"),
        ('"name", "44", 0, 0, 0', "&one", "1, 1, rows", "operator 0 is damaged"),
    ],
)
def test_a_damaged_table_is_refused(
    cpu: Farmrt, plan: Plan, tmp_path: Path, row: str, rows: str, table: str, told: str
) -> None:
    made = compiled(tmp_path, TABLE.format(row=row, rows=rows, table=table))
    answer = load(cpu, plan, operators=made)
    assert answer["error"] == "unsupported" and told in answer["message"]


def test_a_library_without_a_table_is_refused(cpu: Farmrt, plan: Plan, tmp_path: Path) -> None:
    answer = load(cpu, plan, operators=compiled(tmp_path, "int other;"))
    assert answer["error"] == "unsupported" and "no library of custom operators" in answer["message"]


@pytest.mark.parametrize(
    ("index", "value", "told"),
    [
        (0, 0, "a size is out of range"),
        (0, -7, "a size is out of range"),
        (1, -1, "a size is out of range"),
        (3, 0, "a size is out of range"),
        (1, 1 << 20, "a tensor exceeds its pool"),
        (3, 2**31 - 1, "a tensor exceeds its pool"),
    ],
)
def test_sizes_of_a_step_are_checked(cpu: Farmrt, plan: Plan, library: Path, index: int, value: int, told: str) -> None:
    answer = load(cpu, with_int(plan, index, value), operators=library)
    assert answer["error"] == "bad_file" and told in answer["message"]
