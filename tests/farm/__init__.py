import pytest

pytest.register_assert_rewrite("tests.farm.transport.contract")
