"""Where an engine listens: reading its URL."""

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an engine listens: a TCP address or a Unix socket, and the path its API is mounted under."""

    scheme: str
    host: str
    port: int
    path: str = ""
    unix: str | None = None

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """Read `http://host:port/path`, `https://…` or `unix:/path.sock`; ValueError says what is wrong."""
        if url.startswith("unix:"):
            path = url.removeprefix("unix:").removeprefix("//")
            if not path.startswith("/"):
                raise ValueError(f"{url!r}: a Unix socket is written unix:/absolute/path")
            return cls("http", "localhost", 0, unix=path)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// URL with a host")
        if parts.username or parts.query or parts.fragment:
            raise ValueError(f"{url!r}: credentials, query and fragment do not belong here")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """The Host header's value; IPv6 addresses bracketed, default ports left out."""
        if self.unix is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"
