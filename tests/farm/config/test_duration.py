import pytest

from farm.config.duration import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("45m", 2700), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), ("3 D", 259_200)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "0h", "-1h", "1m1h", "2 weeks", "1e3s", "99999999d"])
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration; write 45m, 2h"):
        parse_duration(text)
