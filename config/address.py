"""What counts as a listening address and as an engine's URL, and how each is written once normalised."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?\Z"
)
DEFAULT_PORTS = {"http": 80, "https": 443}
URL = "a URL such as http://10.0.0.5:8000, https://host or unix:///run/engine.sock"
LISTEN = "HOST:PORT such as 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080"


class BadAddress(ValueError):
    """The text is no address of the kind asked for; the message says what was expected, never the text."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen.  `host` carries no brackets; `port` 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen(text: str) -> Address:
    """Read HOST:PORT.  Raises BadAddress."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise BadAddress(f"{LISTEN}; the port is missing")
    if host.startswith("[") and host.endswith("]"):
        try:
            return Address(ipaddress.IPv6Address(host[1:-1]).compressed, _port(port, LISTEN, 0))
        except ipaddress.AddressValueError:
            raise BadAddress(f"{LISTEN}; what stands in the brackets is no IPv6 address") from None
    if ":" in host:
        raise BadAddress(f"{LISTEN}; an IPv6 address goes in brackets, as in [::1]:8080")
    if not host:
        raise BadAddress(f"{LISTEN}; the host is missing (0.0.0.0 or [::] listens everywhere)")
    _check_host(host, LISTEN)
    return Address(host.lower(), _port(port, LISTEN, 0))


def engine_url(text: str) -> str:
    """The URL in one spelling: lower-case scheme and host, no trailing slash.  Raises BadAddress."""
    if not text.isprintable() or " " in text:
        raise BadAddress(f"{URL}; it holds a space or a control character")
    scheme, colon, rest = text.partition(":")
    scheme = scheme.lower()
    if not colon or scheme not in {"http", "https", "unix"}:
        raise BadAddress(f"{URL}; it must begin with http://, https:// or unix://")
    if scheme == "unix":
        return f"unix://{_socket_path(rest)}"
    try:
        parts = urlsplit(text)
    except ValueError:
        raise BadAddress(f"{URL}; the brackets hold no IPv6 address") from None
    if "@" in parts.netloc:
        raise BadAddress(f"{URL}; a user name or key in it would end up in logs: put it in api_key")
    if "?" in text or "#" in text:
        raise BadAddress(f"{URL}; without ? or #")
    path = parts.path.rstrip("/")
    if path.rsplit("/", 1)[-1] == "v1":
        raise BadAddress(f"{URL}; without /v1: the client's own path is added to it")
    if ".." in path.split("/"):
        raise BadAddress(f"{URL}; without .. in its path")
    return f"{scheme}://{_authority(parts)}{path}"


def identity(url: str) -> tuple[str, str, int, str]:
    """What two normalised URLs share when they reach the same engine."""
    if url.startswith("unix:"):
        return ("unix", "", 0, url)
    parts = urlsplit(url)
    host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
    return (parts.scheme, host, parts.port or DEFAULT_PORTS[parts.scheme], parts.path)


def _authority(parts: SplitResult) -> str:
    host, bracket, port = parts.netloc.rpartition(":")
    if not bracket or port.endswith("]"):
        host, port = parts.netloc, ""
        if bracket == "" and not host:
            raise BadAddress(f"{URL}; the host is missing")
    elif not port:
        raise BadAddress(f"{URL}; the port after the colon is missing")
    if host.startswith("[") and host.endswith("]"):
        try:
            host = f"[{ipaddress.IPv6Address(host[1:-1]).compressed}]"
        except ipaddress.AddressValueError:
            raise BadAddress(f"{URL}; the brackets hold no IPv6 address") from None
    else:
        if ":" in host:
            raise BadAddress(f"{URL}; an IPv6 address goes in brackets, as in http://[::1]:8000")
        _check_host(host, URL)
        host = host.lower()
    return f"{host}:{_port(port, URL, 1)}" if port else host


def _socket_path(rest: str) -> str:
    path = rest[2:] if rest.startswith("//") else rest
    if not path.startswith("/") or path.endswith("/"):
        raise BadAddress(f"{URL}; unix:// is followed by the absolute path of a socket")
    if len(path.encode()) > 107:  # sockaddr_un holds 108 bytes with the closing NUL
        raise BadAddress(f"{URL}; a socket's path has at most 107 bytes")
    return path


def _check_host(host: str, expected: str) -> None:
    if not host:
        raise BadAddress(f"{expected}; the host is missing")
    if re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ipaddress.AddressValueError:
            raise BadAddress(f"{expected}; the host looks like an IPv4 address but is none") from None
    elif not HOST.match(host):
        raise BadAddress(f"{expected}; the host holds characters that no host name has")


def _port(text: str, expected: str, lowest: int) -> int:
    if not (text.isascii() and text.isdigit() and lowest <= int(text[:6]) <= 65535 and len(text) <= 5):
        raise BadAddress(f"{expected}; the port is a number from {lowest} to 65535")
    return int(text)
