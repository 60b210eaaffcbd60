"""Sends the verdict on a night to a web address: a POST with the JSON that `notify_command` gets."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

import httpx

from runtime.errors import FarmError

SIGNATURE = "X-Farm-Signature"
EVENT = {"X-Farm-Event": "night", "Content-Type": "application/json"}
TIMEOUT_S = 10.0
PAUSES_S = (2.0, 10.0, 30.0)  # before each further attempt


def send(
    url: str,
    document: bytes,
    secret: bytes = b"",
    pauses_s: Sequence[float] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Posts a document; tries again where nobody answers, or the answer is that it may work later.

    Args:
        url: where to; a redirection is not followed.
        document: the body.
        secret: signs the body: HMAC-SHA256, in the header `X-Farm-Signature` as `sha256=HEX`; empty: no such header.
        pauses_s: how long to wait before each further attempt; by default PAUSES_S.
        sleep: waits so many seconds.

    Raises:
        FarmError: it was not taken; the address is told without what may be secret in it.
    """
    headers = {**EVENT, **({SIGNATURE: signature(document, secret)} if secret else {})}
    reason = ""
    for pause_s in (0.0, *(PAUSES_S if pauses_s is None else pauses_s)):
        sleep(pause_s)
        try:
            answer = httpx.post(url, content=document, headers=headers, timeout=TIMEOUT_S)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            continue
        if answer.is_success:
            return
        reason = f"was answered with status {answer.status_code}"
        if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR and answer.status_code != HTTPStatus.TOO_MANY_REQUESTS:
            break
    raise FarmError(f"webhook {httpx.URL(url).host}: {reason}")


def signature(document: bytes, secret: bytes) -> str:
    """What the header says of a body."""
    return f"sha256={hmac.new(secret, document, hashlib.sha256).hexdigest()}"


def read_secret(path: Path) -> bytes:
    """The secret of a file, without the white space around it; raises FarmError where there is none."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise FarmError(f"webhook_secret_file {path}: cannot be read: {error.strerror}") from None
    if not secret:
        raise FarmError(f"webhook_secret_file {path}: is empty")
    return secret
