"""Who may do what: sessions of people who signed in with their token, and what no other site may make a browser do."""

import dataclasses
import hmac
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from farm.serve.tokens import Tokens, token_digest

COOKIE = "farm_session"
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 1000
BEARER = "bearer "


@dataclasses.dataclass
class BrowserSession:
    """A browser that signed in; `csrf` stands in each of its forms, `said` is shown on its next page."""

    token_digest: str
    expires: float
    csrf: str = dataclasses.field(default_factory=lambda: secrets.token_urlsafe(32))
    said: str = ""


class Sessions:
    """The sessions of this process; they end with it, with their time, and with the token."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._sessions: dict[str, BrowserSession] = {}

    def begin(self, token: str) -> str:
        """The name of a new session, for a cookie; empty where the token is nobody's."""
        if not self._tokens.person(token):
            return ""
        now = time.time()
        live = {name: one for name, one in self._sessions.items() if one.expires > now}
        self._sessions = dict(list(live.items())[-MAX_SESSIONS + 1 :])
        name = secrets.token_urlsafe(32)
        self._sessions[name] = BrowserSession(token_digest(token), now + SESSION_S)
        return name

    def end(self, name: str) -> None:
        """Signs out."""
        self._sessions.pop(name, None)

    def of(self, cookies: Mapping[str, str]) -> BrowserSession | None:
        """The session of a browser; None where it has none, or its time is over."""
        found = self._sessions.get(cookies.get(COOKIE, ""))
        return found if found and found.expires > time.time() else None

    def person(self, session: BrowserSession | None) -> str:
        """Who signed in; empty where nobody did, or the token was revoked."""
        return self._tokens.person_of_digest(session.token_digest) if session else ""

    def bearer(self, headers: Mapping[str, str]) -> str:
        """The person whose token stands in `Authorization: Bearer TOKEN`; empty where it is nobody's."""
        value = headers.get("authorization", "")
        return self._tokens.person(value[len(BEARER) :].strip()) if value.lower().startswith(BEARER) else ""


def is_own_form(session: BrowserSession, sent: str) -> bool:
    """Whether a form was made for this session."""
    return hmac.compare_digest(session.csrf.encode(), sent.encode(errors="surrogateescape"))


def is_from_here(headers: Mapping[str, str]) -> bool:
    """Whether a browser sends a form from a page of ours; a program, which names no origin, may too."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")
    return bool(origin) and urlsplit(origin).netloc == headers.get("host", "")
