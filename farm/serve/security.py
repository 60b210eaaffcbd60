"""What every answer is wrapped in: headers that forbid browsers all they need not do, known hosts, small requests."""

from collections.abc import Collection, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Plotly makes style elements of its own, and offers pictures of its charts; pages with charts send nothing anywhere.
CHART_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace("data:", "data: blob:")
CHART_PATHS = ("/history", "/reports/", "/hosts/")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), usb=()",
}
HSTS = "max-age=31536000"


class BaseMiddleware:
    """Takes the path below which a proxy shows the service off a request's, unless the proxy has.

    Args:
        base: the path, without a slash at its end; empty: there is none.
    """

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app, self._base = app, base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes one request on."""
        if scope["type"] == "http" and self._base and scope["path"] == self._base:
            await RedirectResponse(f"{self._base}/", 308)(scope, receive, send)
        elif scope["type"] == "http" and self._base and scope["path"].startswith(f"{self._base}/"):
            path = scope["path"].removeprefix(self._base)
            await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)
        else:
            await self._app(scope, receive, send)


class SecurityMiddleware:
    """Refuses requests for hosts that we are not (DNS rebinding) and large bodies; adds headers to every answer.

    Args:
        hosts: host names, lower case and without ports, that a browser may know us by; empty: any.
        is_encrypted: whether browsers reach us by HTTPS.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], is_encrypted: bool) -> None:
        self._app, self._hosts, self._is_encrypted = app, frozenset(hosts), is_encrypted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers(scope["path"]):
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope["method"], Headers(scope=scope))
        await (refused or self._app)(scope, receive, send_protected)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        if self._hosts and host_name(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("unknown host; `farm serve --host-name NAME` makes it known\n", 421)
        if method in ("GET", "HEAD"):
            return None
        length = headers.get("content-length", "")
        if not length.isdecimal():
            return PlainTextResponse("the length of the request is missing\n", 411)
        if int(length) > MAX_BODY_BYTES:
            return PlainTextResponse("the request is too large\n", 413)
        return None

    def _headers(self, path: str) -> Iterable[tuple[str, str]]:
        yield "Content-Security-Policy", CHART_POLICY if path.startswith(CHART_PATHS) else POLICY
        yield from HEADERS.items()
        yield "Cache-Control", "no-cache" if path.startswith(("/assets/", "/reports/")) else "no-store"
        if self._is_encrypted:
            yield "Strict-Transport-Security", HSTS


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()
