import pytest

from tests.runtime.graphs import GraphMaker


@pytest.fixture
def make() -> GraphMaker:
    return GraphMaker()
