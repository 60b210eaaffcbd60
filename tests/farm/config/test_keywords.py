"""Keywords that stand once are those of every function and command that takes them."""

import dataclasses
import inspect
from typing import Unpack

import pytest

from farm import api
from farm.config.execution import Execution
from farm.config.keywords import ArtifactKeywords, ExecutionKeywords, ModelKeywords, accepts, names_of
from farm.jobs.fleet.dispatch import FLEET
from farm.jobs.loading import LoadOptions

LOADING = {"run", "benchmark"}
EXECUTING = LOADING | {"tune", "compare"}


@accepts(ModelKeywords, trust_models=False)
def load(model: str, *, rounds: int = 1, **given: Unpack[ModelKeywords]) -> tuple[object, ...]:
    return model, rounds, given["shapes"], given["trust_models"]


def test_what_is_not_given_has_its_default() -> None:
    assert load("a") == ("a", 1, None, False)
    assert load(model="a", rounds=2, shapes={"x": (1,)}, trust_models=True) == ("a", 2, {"x": (1,)}, True)


def test_a_keyword_of_no_group_is_a_type_error_of_the_function() -> None:
    with pytest.raises(TypeError, match=r"^load\(\) got an unexpected keyword argument 'round'$"):
        load("a", round=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^run\(\) got an unexpected keyword argument 'runds'$"):
        api.run("no_such.yml", runds=3)  # type: ignore[call-arg]


def test_the_signature_names_every_keyword() -> None:
    given = ["model", "rounds", "shapes", "weights", "trust_models", "runtimes"]
    assert list(inspect.signature(load).parameters) == given
    parameters = inspect.signature(api.run).parameters
    assert parameters["fleet"].default is FLEET and parameters["fleet"].annotation == "FleetOptions"
    assert parameters["trust_models"].default is False and parameters["tuned"].default is None
    assert {each.kind for each in list(parameters.values())[2:]} == {inspect.Parameter.KEYWORD_ONLY}


def test_groups_are_the_options_that_they_become() -> None:
    assert set(names_of(ExecutionKeywords)) == {field.name for field in dataclasses.fields(Execution)}
    assert {*names_of(ArtifactKeywords), "execution"} == {field.name for field in dataclasses.fields(LoadOptions)}


@pytest.mark.parametrize(("functions", "group"), [(LOADING, ArtifactKeywords), (EXECUTING, ExecutionKeywords)])
def test_functions_of_a_kind_take_all_of_its_group(functions: set[str], group: type) -> None:
    for name in functions:
        assert set(names_of(group)) <= set(inspect.signature(getattr(api, name)).parameters)
