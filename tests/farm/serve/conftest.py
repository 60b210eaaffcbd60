from collections.abc import Iterator

import httpx
import pytest

from farm.serve.service import FarmService
from tests.farm.serve.rack import serving


@pytest.fixture
def client(service: FarmService) -> Iterator[httpx.Client]:
    with serving(service) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client
