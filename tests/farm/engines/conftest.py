"""What engines run on in tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.engines.base import EngineUnit
from farm.farmrt.unit_file_store import UnitFileStore
from farm.transport.local import LocalTransport


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[EngineUnit]:
    """This machine."""
    transport = LocalTransport(tmp_path / "unit")
    with UnitFileStore(transport) as store:
        yield EngineUnit("host", "host", True, transport, store, list, 60.0)
    transport.close()
