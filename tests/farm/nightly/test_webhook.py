"""A webhook against a server on loopback: signed, sent again, given up."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from farm.nightly import webhook
from runtime.errors import FarmError
from tests.farm.nightly.web_receiver import WebReceiver

BODY, SECRET = b'{"schema_version": 1}', b"secret"


def sent(receiver: WebReceiver, secret: bytes = SECRET) -> list[float]:
    """Sends; the pauses that were made before the attempts."""
    pauses: list[float] = []
    webhook.send(receiver.url, BODY, secret, (2.0, 10.0), pauses.append)
    return pauses


def test_the_body_is_signed() -> None:
    with WebReceiver() as receiver:
        assert sent(receiver) == [0.0]
    ((headers, body),) = receiver.got
    assert body == BODY and (headers["Content-Type"], headers["X-Farm-Event"]) == ("application/json", "night")
    assert headers["X-Farm-Signature"] == "sha256=" + hmac.new(SECRET, BODY, hashlib.sha256).hexdigest()


@pytest.mark.slow
def test_without_a_secret_there_is_no_signature() -> None:
    with WebReceiver() as receiver:
        sent(receiver, b"")
    assert webhook.SIGNATURE not in receiver.got[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("statuses", [(503, 429), (500, 502)])
def test_what_may_work_later_is_sent_again(statuses: tuple[int, ...]) -> None:
    with WebReceiver(*statuses) as receiver:
        assert sent(receiver) == [0.0, 2.0, 10.0]
    assert [body for _, body in receiver.got] == [BODY] * 3


@pytest.mark.slow
@pytest.mark.parametrize(("statuses", "count"), [((404,), 1), ((302,), 1), ((500, 500, 500), 3)])
def test_it_is_given_up_without_telling_the_address(statuses: tuple[int, ...], count: int) -> None:
    with WebReceiver(*statuses) as receiver, pytest.raises(FarmError) as raised:
        sent(receiver)
    assert str(raised.value) == f"webhook 127.0.0.1: was answered with status {statuses[-1]}"
    assert len(receiver.got) == count


@pytest.mark.slow
def test_nobody_listens() -> None:
    with WebReceiver() as receiver:
        pass
    with pytest.raises(FarmError, match=r"webhook 127\.0\.0\.1: ") as raised:
        sent(receiver)
    assert "hidden" not in str(raised.value)


def test_the_secret_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    with pytest.raises(FarmError, match="cannot be read"):
        webhook.read_secret(file)
    file.write_text("\n")
    with pytest.raises(FarmError, match="is empty"):
        webhook.read_secret(file)
    file.write_text("secret\n")
    assert webhook.read_secret(file) == SECRET
