"""Where connections are accepted: addresses of the config turned into listening sockets."""

import errno
import os
import resource
import socket

_BACKLOG = 2048
_MOST_DESCRIPTORS = 1 << 20


class CannotListenError(Exception):
    """An address cannot be listened on; the text says why and what to do."""


def split(address: str) -> tuple[str, int]:
    """Host and port of "host:port", "[v6]:port" or ":port" (every address).

    CannotListenError says what is wrong.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise CannotListenError(f"{address!r} is not host:port (as in 127.0.0.1:8080 or [::1]:8080)")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise CannotListenError(f"{address!r}: write an IPv6 address in brackets, as in [{host}]:{port}")
    return host, int(port)


def listen(address: str) -> list[socket.socket]:
    """Listening sockets, non-blocking, for every address the name stands for (port 0: one, on a free port).

    CannotListenError says why not.
    """
    host, port = split(address)
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise CannotListenError(f"cannot listen on {address}: {host!r} is not known here") from error
    places = list(dict.fromkeys((family, place) for family, _type, _proto, _name, place in found))
    if port == 0:
        places = places[:1]
    sockets: list[socket.socket] = []
    try:
        for family, place in places:
            if (opened := _open(family, place, alone=len(places) == 1)) is not None:
                sockets.append(opened)
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise CannotListenError(_why(address, port, error)) from error
    if not sockets:
        raise CannotListenError(f"cannot listen on {address}: this machine has no IPv6")
    return sockets


def descriptors() -> int:
    """How many files this process may have open, after asking for as many as it may have.

    The usual soft limit of 1024 is for programs that use select(); the hard one is what the system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS allows fewer than it says
        return soft
    return wanted


def shown(bound: socket.socket) -> str:
    """The address a socket listens on, as a client would type it."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open(family: int, place: object, *, alone: bool) -> socket.socket | None:
    try:
        opened = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return None  # a kernel without IPv6 is no reason not to serve IPv4
        raise
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if alone else 1)
        opened.bind(place)  # type: ignore[arg-type]
        opened.listen(_BACKLOG)
        opened.setblocking(False)
    except OSError as error:
        opened.close()
        if family == socket.AF_INET6 and not alone and error.errno == errno.EADDRNOTAVAIL:
            return None  # "localhost" names ::1 where IPv6 is switched off
        raise
    return opened


def _why(address: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        found = f"ss -ltnp 'sport = :{port}'"
        return f"{address} is taken: stop the process that listens there ({found}) or choose another port"
    if error.errno == errno.EACCES:
        return f"not allowed to listen on {address}: ports below 1024 need a privilege; choose a higher one"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {address}: it is no address of this machine"
    return f"cannot listen on {address}: {os.strerror(error.errno or 0)}"
