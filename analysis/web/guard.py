"""Who may talk to the admin server?  Host check, security headers, errors in OpenAI's shape."""

import ipaddress
import socket

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

_CLOSED = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
PAGE_POLICY = f"default-src 'self'; {_CLOSED}"
REPORT_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; {_CLOSED}"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def failure(status: int, message: str, code: str) -> web.Response:
    """An error as OpenAI's API gives it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return web.json_response(body, status=status)


def host_allowed(host: str, bound: str) -> bool:
    """Whether a Host header may name this server, bound to `bound`.

    A page whose name an attacker makes resolve to this server (DNS rebinding) sends that name, so only names
    nobody else can own are taken: loopback names, addresses, the bound host. Bound beyond loopback, also
    names without a dot (a container's or a machine's own): whoever could forge those could reach the port
    directly anyway.
    """
    name = _name(host)
    if name is None:
        return False
    if _is_address(name) or name == "localhost" or name.endswith(".localhost") or name == bound.lower():
        return True
    if bound.lower() == "localhost" or (_is_address(bound) and ipaddress.ip_address(bound).is_loopback):
        return False
    return "." not in name or name == socket.gethostname().lower()


def _name(host: str) -> str | None:
    """The name in a Host header, without port and brackets, in lower case; None when it is none."""
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        return name.lower() if bracket and (not rest or rest[1:].isdigit()) else None
    name, _, port = host.partition(":")
    return name.lower().removesuffix(".") or None if not port or port.isdigit() else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_ours(request: web.Request) -> bool:
    """Whether no page of another origin has a browser send this: a browser names the page's origin with every
    write, and what is no browser may name none."""
    origin = request.headers.get("Origin")
    if origin is not None and origin.partition("://")[2].lower() != request.headers.get("Host", "").lower():
        return False
    return request.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")


def guard(bound: str) -> Middleware:
    """Middleware for a server bound to the host `bound`."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not host_allowed(request.headers.get("Host", ""), bound):
            text = "this Host is not one of this server's names; use its IP address or localhost"
            return failure(403, text, "host_not_allowed")
        if request.method not in ("GET", "HEAD") and not _is_ours(request):
            text = "another site's page may not do this; send it without an Origin, as curl does"
            return failure(403, text, "origin_not_allowed")
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return failure(404, f"there is nothing at {request.path[:200]}", "not_found")
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            answer = failure(
                405, f"{request.method[:20]} is not allowed here, only {allowed}", "method_not_allowed"
            )
            answer.headers["Allow"] = allowed
            return answer
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return failure(error.status, error.reason, "http_error")
        except ConnectionError:
            raise
        except Exception:
            structlog.get_logger("analysis").exception("admin_failed", path=request.path)
            return failure(
                500, "this could not be answered; the analysis process's log says why", "internal_error"
            )

    return guarded


async def harden(request: web.Request, response: web.StreamResponse) -> None:
    """Signal handler: security headers on every answer, also on a stream's, before its head is sent."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", PAGE_POLICY)
    if request.path.startswith("/static/") or request.path == "/":
        response.headers["Cache-Control"] = (
            "no-cache"  # revalidated: a new version's page never meets an old script
        )
    else:
        response.headers.setdefault("Cache-Control", "no-store")
