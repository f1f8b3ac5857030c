"""How are clients and engines believed, by the config?  And a file's path, as processes are told it."""

from pathlib import Path

from config.tls import EngineTls, ListenTls
from wire.tls import ClientTls, ServerTls


def listen_tls(tls: ListenTls | None) -> ServerTls | None:
    """What clients are shown, by the config."""
    if tls is None:
        return None
    return ServerTls(absolute(tls.cert), absolute(tls.key), _absolute(tls.client_ca), tls.min_version)


def engine_tls(tls: EngineTls | None) -> ClientTls | None:
    """How an engine is believed, by the config."""
    if tls is None:
        return None
    return ClientTls(
        _absolute(tls.ca), _absolute(tls.cert), _absolute(tls.key), tls.server_name, verify=tls.verify
    )


def absolute(path: Path) -> str:
    """The path from the root."""
    return str(path.absolute())  # not resolved: a symlink that is swapped later must be followed anew


def _absolute(path: Path | None) -> str | None:
    return None if path is None else absolute(path)
