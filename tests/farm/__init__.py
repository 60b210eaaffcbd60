import pytest

pytest.register_assert_rewrite("tests.farm.transport_contract")
