"""What can be wrong with a module of operators, and what its author is told."""

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.operators.modules import load_file
from runtime.errors import ConfigError, ModelError
from tests.farm.conftest import CallFarm
from tests.farm.operators.conftest import EXAMPLE, replace

MODULE = "acme_operators.py"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A copy of the example's module, with its sources."""
    for file in (MODULE, "gated.cl", "gated.c"):
        (tmp_path / file).write_text((EXAMPLE / file).read_text())
    return tmp_path / MODULE


def refusal(module: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_file(module)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "import math\n",
            "import math\nimport no_such_module\n",
            "No module named 'no_such_module' (acme_operators.py:6)",
        ),
        ("import math\n", "import math\nraise SystemExit(3)\n", "SystemExit: 3 (acme_operators.py:6)"),
        ("import math\n", "import math\n1 +\n", "acme_operators.py:6: SyntaxError: invalid syntax"),
        ("OPERATORS = [", "OTHERS = [", "OPERATORS is missing; expected: a list of Operator(...)"),
        ("OPERATORS = [", "OPERATORS = 3\nOTHERS = [", "OPERATORS is int; expected"),
        ("OPERATORS = [", "OPERATORS = [3,", "OPERATORS holds 3, which is no Operator"),
        ('domain="com.acme"', 'domain="ai.onnx"', "domain 'ai.onnx' is not yours"),
        ('domain="com.acme"', 'domain=""', "domain '' is not yours"),
        ('domain="com.acme"', 'domain="farm"', "domain 'farm' is not yours"),
        ('name="GatedActivation"', 'name="Gated Activation"', "'Gated Activation' is no name"),
        ('inputs=["x", "gate"]', "inputs=[]", "its first input is needed"),
        ('inputs=["x", "gate"]', 'inputs=["x", "y"]', "two inputs (the output is y) are called y"),
        ('inputs=["x", "gate"]', 'inputs=["x", Input("gate", dtype="f32")]', "'f32' is no element type"),
        ('Attribute("float", 1.0)', 'Attribute("float", 1)', "attribute alpha: its default 1 is no float"),
        ('Attribute("float", 1.0)', 'Attribute("real", 1.0)', "attribute alpha: 'real' is no kind"),
        ('"x:flat gate:flat y:flat"', '"x:flat y:flat"', "gated: its tensors are x, y; expected: x, gate in any order"),
        ('"x:flat gate:flat y:flat"', '"x:image gate:flat y:flat"', "x (float32) is 'image'; it may be flat, view"),
        ('"x:flat gate:flat y:flat"', '"x:weights gate:flat y:flat"', "x is weights, so its Input needs constant=True"),
        ('entry="gated"', 'entry="gate"', "gated.cl: it has no function gate"),
        ('source="gated.c"', 'source="absent.c"', "absent.c: cannot be read: No such file or directory"),
        ("variants=tuple(", "variants=() and tuple(", "variants are what variant(...) makes, at least one"),
        ("(3, 33), (3, 33)", "(3, 33),", "for 2 inputs"),
        ('{"alpha": 0.5}', '{"beta": 0.5}', "a case has the attribute beta = 0.5"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(module: Path, old: str, new: str, told: str) -> None:
    replace(module, old, new)
    replace(module, "from farm.operators import Attribute", "from farm.operators import Input, Attribute")
    assert told in refusal(module)
    assert refusal(module).startswith(str(module))


def test_a_module_may_hold_what_python_looks_up_by_the_modules_name(module: Path) -> None:
    """Dataclasses with annotations as text are looked up in `sys.modules`."""
    text = "import dataclasses\n\n\n@dataclasses.dataclass\nclass Size:\n    extent: int = 3\n\n\nOPERATORS = ["
    replace(module, "OPERATORS = [", text)
    assert [bound.title for bound in load_file(module)] == ["com.acme::GatedActivation"]


def test_a_module_that_is_not_there_or_no_text_is_refused(module: Path, tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in refusal(tmp_path / "absent.py")
    (tmp_path / "gated.cl").write_bytes(b"gated(\xff")
    assert "gated.cl: is not UTF-8 text" in refusal(module)
    (tmp_path / "gated.cl").write_bytes(b"gated(\0")
    assert "gated.cl: is no source code" in refusal(module)


def test_a_module_without_kernel_and_c_is_refused(module: Path) -> None:
    replace(module, "        kernels=[", "        macs=None and [")
    replace(module, "        c=CFunction(", '        output_type="" and CFunction(')
    assert "it has neither kernels nor c" in refusal(module)


def shape_of(module: Path) -> object:
    return load_file(module)[0].shape([(2, 3), (2, 3)], {"alpha": 1.0})


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("return 1 / 0", "shape function: ZeroDivisionError: division by zero (acme_operators.py:"),
        ("return None", "its shape function returned None; expected: a tuple of sizes"),
        ("return (1, -2)", "its shape function returned (1, -2)"),
        ("return (1, 2.0)", "its shape function returned (1, 2.0)"),
        ("return (2**40,)", "its shape function returned (1099511627776,)"),
        ("return 'x'", "its shape function returned 'x'"),
    ],
)
def test_a_shape_function_that_fails_or_returns_nonsense_is_told(module: Path, new: str, told: str) -> None:
    replace(module, "    return x\n", f"    {new}\n")
    with pytest.raises(ModelError) as caught:
        shape_of(module)
    assert told in str(caught.value)


def test_a_shape_function_that_refuses_is_told_with_the_node(farm: CallFarm, example: Path) -> None:
    replace(example / MODULE, "    if x != gate:", "    if True:")
    status, _, errors = farm("convert", "gated.yml")
    assert status == 2 and len(errors.splitlines()) == 1
    assert "node 'gated' (GatedActivation): com.acme::GatedActivation: shape function: ValueError: x is (1" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("return x[:, :1]", "its reference returned shape (1, 1, 24, 24), its shape function says (1, 16, 24, 24)"),
        ("return 3", "its reference returned int, not an array"),
        ("return x @ gate[0, 0, :5]", "reference: ValueError: "),
    ],
)
def test_a_reference_that_is_wrong_is_told(farm: CallFarm, example: Path, new: str, told: str) -> None:
    replace(example / MODULE, '    return x * attributes["alpha"] / (1 + np.exp(-gate))', f"    {new}")
    _, output, errors = farm("run", "gated.yml", "--validate", "--json")
    assert told in output + errors and "Traceback" not in output + errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda text: text.replace('"count": math.prod(output), ', ""),
            "gives count = None; expected: int",
        ),
        (lambda text: text.replace("math.prod(output), ", "0.5, "), "`arguments` gives count = 0.5; expected: int"),
        (lambda text: text.replace("return (ceil_div(", "return ('x', ceil_div("), "work_items returned ('x', "),
    ],
)
def test_a_function_of_a_kernel_that_is_wrong_is_told(
    farm: CallFarm, example: Path, change: Callable[[str], str], told: str
) -> None:
    text = (example / MODULE).read_text()
    assert change(text) != text
    (example / MODULE).write_text(change(text))
    status, output, errors = farm("run", "gated.yml", "--json")
    assert status and told in output + errors and "Traceback" not in output + errors


@pytest.mark.slow
def test_the_deployment_file_says_which_line_names_a_wrong_module(farm: CallFarm, example: Path) -> None:
    replace(example / "gated.yml", "[acme_operators.py]", "[acme_operators.py, other.py]")
    status, _, errors = farm("run", "gated.yml")
    assert status == 2 and errors.startswith("error: gated.yml:3: custom_operators[1]: other.py: cannot be read")
    other = (example / MODULE).read_text().replace("(1 + np.exp(-gate))", "(1 + np.exp(-gate)) * 1")
    (example / "other.py").write_text(other)
    status, _, errors = farm("run", "gated.yml")
    assert status == 2 and errors.startswith(
        "error: gated.yml:3: custom_operators: com.acme::GatedActivation is defined"
    )
    replace(example / "gated.yml", "[acme_operators.py, other.py]", "[no.such.module]")
    assert (
        "custom_operators[0]: module no.such.module cannot be imported: ModuleNotFoundError"
        in farm("run", "gated.yml")[2]
    )


@pytest.mark.slow
def test_a_node_without_its_module_is_refused_with_the_way_out(farm: CallFarm, example: Path) -> None:
    """Also after another file of this process has loaded the operator."""
    assert farm("convert", "gated.yml")[0] == 0
    replace(example / "gated.yml", "custom_operators: [acme_operators.py]\n", "")
    status, _, errors = farm("convert", "gated.yml")
    assert status == 2 and "operator com.acme.GatedActivation is not supported; custom_operators in the" in errors


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ("gamma=1.5", "attribute gamma is unknown; known: alpha"),
        ('alpha="much"', "attribute alpha is 'much', not of type float"),
    ],
)
def test_a_node_that_does_not_fit_the_declaration_is_refused(
    farm: CallFarm, example: Path, attributes: str, told: str
) -> None:
    replace(example / "make_model.py", "alpha=1.5", attributes)
    runpy.run_path("make_model.py", run_name="__main__")
    status, _, errors = farm("convert", "gated.yml")
    assert status == 2 and told in errors and "node 'gated'" in errors


@pytest.mark.slow
def test_a_wrong_kernel_is_told_with_its_first_element(farm: CallFarm, example: Path) -> None:
    replace(example / "gated.cl", "for (; i < end; i++)", "for (; i + 1 < end; i++)")  # not the last of the tail
    status, output, errors = farm("operators", MODULE, "--check")
    assert status == 1 and "wrong_result" in output
    assert "com.acme.GatedActivation_1x7x5x3_1x7x5x3_alpha0.5/VECTOR4_ITEMS1/local" in errors
    assert "y[0,6,4,2] is " in errors and "the reference says" in errors


@pytest.mark.slow
def test_a_kernel_that_does_not_test_its_bounds_is_seen(farm: CallFarm, example: Path) -> None:
    """The work items that do not exist write over the outputs behind theirs."""
    replace(example / "gated.cl", "end = min(first + VECTOR * ITEMS, count)", "end = first + VECTOR * ITEMS")
    status, _, errors = farm("operators", MODULE, "--check")
    assert status == 1 and "differ" in errors


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_is_told_with_the_users_line(farm: CallFarm, example: Path) -> None:
    replace(example / "gated.cl", "    gate += gate_offset;\n", "    gate += gate_ofset;\n")
    status, output, errors = farm("operators", MODULE, "--check")
    assert status == 1 and "build_failed" in output
    assert "gated.cl:8:13: " in errors and "gate_ofset" in errors


@pytest.mark.slow
def test_a_wrong_c_function_is_told(farm: CallFarm, example: Path) -> None:
    replace(example / "gated.c", "expf(-gate[i])", "expf(gate[i])")
    status, output, _ = farm("operators", MODULE, "--check", "--json")
    assert status == 1 and '"where": "cpu", "launches": 10, "status": "wrong_result"' in output


@pytest.mark.slow
def test_a_file_that_changes_between_two_commands_is_read_anew(farm: CallFarm, example: Path) -> None:
    replace(example / "gated.yml", "runtime: gpu", "runtime: cpu+gpu")
    assert farm("convert", "gated.yml")[0] == 0
    (example / "gated.c").unlink()
    status, _, errors = farm("run", "gated.yml")
    assert status == 2 and "gated.c: cannot be read: No such file or directory" in errors
