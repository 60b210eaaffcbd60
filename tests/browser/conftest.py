from collections.abc import Iterator

import pytest

from tests.browser import chromium
from tests.browser.chromium import Browser
from tests.conftest import require


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    require("chromium", chromium.missing())
    with chromium.browser(tmp_path_factory.mktemp("profile")) as started:
        yield started
