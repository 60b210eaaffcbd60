"""YAML becomes plain data with lines; a damaged file is refused in one line."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.config import deployment, yaml_source
from runtime.errors import ConfigError
from tests.farm.config.test_deployment import VALID

SCALARS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).filter(lambda text: text != "null")
DATA = st.dictionaries(
    SCALARS,
    st.recursive(
        SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3), max_leaves=8
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@given(DATA)
def test_text_data_survives_a_round_trip(tmp_path_factory: pytest.TempPathFactory, data: dict[str, object]) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.yml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True, default_style="'"))
    assert yaml_source.load(path).data == data


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, len(VALID) - 1), st.integers(0, 40), st.text(max_size=6) | st.binary(max_size=6))
def test_a_damaged_file_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, filling: str | bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.yml"
    content = VALID.encode()
    middle = filling.encode(errors="surrogatepass") if isinstance(filling, str) else filling
    path.write_bytes(content[:start] + middle + content[start + length :])
    try:
        deployment.load(path)
    except ConfigError as error:
        assert str(error).startswith(str(path))
        assert len(str(error)) < 1000


def test_the_line_is_the_keys_or_that_of_the_enclosing_key(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text("a:\n  b:\n    - one\n    - two\nc: {d: e}\n")
    source = yaml_source.load(path)
    assert source.line(("a", "b", 1)) == 4
    assert source.line(("a", "b", 7, "x")) == 2
    assert source.line(("c", "d")) == 5
    assert source.line(("z",)) == 1
    assert yaml_source.dotted(("a", "b", 1, "x")) == "a.b[1].x"
