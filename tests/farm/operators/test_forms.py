"""Every form of argument, on every memory; ABIs of other machines; installed packages."""

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from farm.operators import modules
from farm.operators.modules import load_file
from runtime.convert import convert
from runtime.custom.binding import BoundOperator
from runtime.custom.c_library import c_kernel, operators_library
from runtime.custom.registry import find_operator, forget, register
from runtime.errors import BuildError, ConfigError, ModelError, UnsupportedError
from runtime.graph import Graph
from runtime.lowering.lower import lower
from runtime.lowering.trial_inputs import trial_inputs
from runtime.lowering.trials import trial_plan
from runtime.native.toolchains import why_missing
from runtime.operators.table import OPERATORS, check_graph
from runtime.oracle import evaluate
from runtime.target import Target
from tests.farm.conftest import CallFarm
from tests.farm.operators.conftest import FORMS
from tuner.space import candidate_costs

TARGET = Target("host", "host")


def bound_by_name() -> dict[str, BoundOperator]:
    return {bound.declared.name: bound for bound in load_file(FORMS / "forms.py")}


def graph_of(op: str, inputs: dict[str, tuple[int, list[int]]], weights: dict[str, np.ndarray]) -> Graph:
    """A model of one node."""
    names = [*inputs, *weights]
    proto = helper.make_graph(
        [helper.make_node(op, names, ["out"], "node", domain="org.forms")],
        "model",
        [helper.make_tensor_value_info(name, *described) for name, described in inputs.items()],
        [onnx.ValueInfoProto(name="out")],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.forms", 1)]
    graph, _ = convert(helper.make_model(proto, opset_imports=opsets), custom=register(list(bound_by_name().values())))
    return graph


def taken(rows_type: int = TensorProto.INT32) -> Graph:
    return graph_of("Take", {"x": (TensorProto.FLOAT, [6, 17]), "rows": (rows_type, [5])}, {})


def scaled() -> Graph:
    return graph_of("Scaled", {"x": (TensorProto.FLOAT, [1, 5, 3, 7])}, {})


@pytest.mark.slow
def test_every_form_is_right_on_this_machine(farm: CallFarm, forms: Path) -> None:
    status, output, errors = farm("operators", "forms.py", "--check", "--json")
    checks = json.loads(output)["checks"]
    assert status == 0, errors
    wheres = {(check["operator"], check["where"]): check["launches"] for check in checks}
    assert wheres["org.forms::Take", "cpu"] == 8  # two declared sizes, and each with one of its sizes grown
    assert wheres["org.forms::Take", "gpu/buffer/fp32"] == 16
    assert wheres["org.forms::Scaled", "gpu/image/fp16_storage"] == 8


def test_an_operator_stays_in_images_where_it_has_a_kernel_there() -> None:
    on_images = lower(scaled(), Target("host", "host", memory="image"))
    assert [step.kernel.name for step in on_images.steps] == ["buffer_to_image", "scaled_image", "image_to_buffer"]
    narrow = lower(scaled(), Target("host", "host", memory="image", image2d_max_width=8))
    (step,) = [step for step in narrow.steps if step.op == "Scaled"]
    assert step.kernel.name == "scaled_view" and "image of 14 x 3 pixels" in step.note


def test_an_operator_without_a_kernel_on_images_is_lowered_to_buffers() -> None:
    steps = lower(taken(), Target("host", "host", memory="image")).steps
    assert [step.kernel.name for step in steps] == ["take"]


def test_an_absent_input_is_told_to_kernel_and_c_function() -> None:
    (step,) = lower(taken(), TARGET).steps
    assert step.defines == {"HAS_BIAS": 0}
    (step,) = lower(taken(), Target("host", "host", memory="cpu")).steps
    assert step.dims["bias elements"] == 0 and step.dims["rows elements"] == 5


def test_an_input_of_another_type_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match=r"input 1 \('rows'\) holds int64; the operator takes int32"):
        taken(TensorProto.INT64)


def test_an_input_that_must_be_constant_is_refused_where_it_is_not() -> None:
    inputs = {"x": (1, [6, 17]), "rows": (TensorProto.INT32, [5]), "bias": (1, [17])}
    for memory in ("buffer", "cpu"):
        with pytest.raises(UnsupportedError, match=r"input bias \('bias'\) is computed at run time"):
            lower(graph_of("Take", inputs, {}), Target("host", "host", memory=memory))


def test_a_c_function_alone_is_told_where_it_runs_and_a_kernel_alone_too() -> None:
    with pytest.raises(UnsupportedError, match=r"node 'node' \(org.forms::Scaled\): no C source; runs on gpu only"):
        lower(scaled(), Target("host", "host", memory="cpu"))


def test_noise_lies_in_the_range_that_an_input_declares() -> None:
    values = trial_inputs(taken(), np.random.default_rng(0))
    assert values["rows"].dtype == np.int32 and set(values["rows"].tolist()) <= set(range(6))


def test_trials_have_the_kernel_and_keep_to_its_local_limit() -> None:
    plan = trial_plan([taken(), scaled()], Target("host", "host", memory="image"))
    launches = {launch.kernel.name: launch for launch in plan.launches}
    assert {"take", "scaled_image"} <= set(launches)
    sizes = [each.local_size for each in candidate_costs(launches["scaled_image"], plan.plan.target)]
    assert sizes and all(0 < x <= 2 and y <= 4 and z <= 4 for x, y, z in sizes)
    assert plan.inputs[next(name for name in plan.inputs if name.endswith("rows"))].dtype == np.int32


def test_macs_are_what_the_operator_says() -> None:
    assert lower(taken(), TARGET).macs == 5 * 17


def test_the_graph_that_is_imported_keeps_every_rule() -> None:
    check_graph(taken())
    check_graph(scaled())


def test_the_same_content_in_another_folder_is_the_same_operator_and_another_content_is_not(forms: Path) -> None:
    first, copied = (load_file(folder / "forms.py")[0] for folder in (FORMS, forms))
    assert first.digest == copied.digest and register([first]) == register([copied])
    (forms / "factor.h").write_text("#define FACTOR 4.0f\n")  # a file that a kernel includes
    edited = load_file(forms / "forms.py")[0]
    (name,) = register([edited]).values()
    assert name not in register([first]).values() and OPERATORS[name].custom
    with pytest.raises(ConfigError, match=r"org.forms::Scaled is defined twice: in .*data/forms.py and in .*forms.py"):
        register([first, edited])


@pytest.mark.parametrize("abi", ["host", "arm64", "armhf", "arm64-v8a"])
def test_the_c_function_compiles_for_every_abi(abi: str) -> None:
    if why_missing(abi):
        pytest.skip(why_missing(abi))
    library = operators_library([c_kernel(bound_by_name()["Take"])], abi)
    content = library.read_bytes()
    assert content[:4] == b"\x7fELF" and b"farm_operators\0" in content
    assert b"take\0" not in content  # the user's names are the file's own


def test_a_c_function_that_does_not_compile_is_told_with_the_users_line(forms: Path) -> None:
    source = forms / "take.c"
    source.write_text(source.read_text().replace("int32_t length,", "int32_t length, int more,"))
    (take,) = (bound for bound in load_file(forms / "forms.py") if bound.c)
    with pytest.raises(BuildError, match=r"take\.c:3:6: error: conflicting types"):
        operators_library([c_kernel(take)], "host")


def test_an_installed_package_offers_operators(forms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(forms)
    point = EntryPoint("forms", "forms:OPERATORS", modules.GROUP)
    monkeypatch.setattr(modules, "entry_points", lambda group: [point] if group == "farm.operators" else [])
    assert [bound.title for bound in modules.load_installed()] == ["org.forms::Scaled", "org.forms::Take"]
    assert modules.load("forms", forms)[0].digest == modules.load_installed()[0].digest
    broken = EntryPoint("broken", "forms_that_are_not_there:OPERATORS", modules.GROUP)
    monkeypatch.setattr(modules, "entry_points", lambda group: [broken])
    with pytest.raises(ConfigError, match=r"entry point broken of farm.operators .*ModuleNotFoundError"):
        modules.load_installed()


def test_what_is_forgotten_is_in_no_table() -> None:
    before = set(OPERATORS)
    graph = taken()
    op = graph.nodes[0].op
    assert op in OPERATORS and lower(graph, TARGET).macs
    forget()
    assert set(OPERATORS) == before and op not in evaluate.CUSTOM
    with pytest.raises(KeyError):
        find_operator(op)
    with pytest.raises(ModelError, match="no such operator"):
        check_graph(graph)
    assert taken().nodes[0].op == op
