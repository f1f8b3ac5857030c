"""TLS: what is asked for on either side, the context made of it, and a context that follows its files."""

import hashlib
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

Version = Literal["1.2", "1.3"]

_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_ALPN: Final = ["http/1.1"]


class BadTls(Exception):
    """A certificate, key or list of authorities cannot be used; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What clients are shown; with `client_ca` they must show a certificate of that authority (mTLS)."""

    cert: str
    key: str
    client_ca: str | None = None
    min_version: Version = "1.2"

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for file in (self.cert, self.key, self.client_ca) if file is not None)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How an engine is believed to be itself.

    `ca` replaces the system's authorities; `cert` and `key` are shown to engines that ask (mTLS);
    `server_name` is the name its certificate must bear where that is not the host of its URL.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    verify: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for file in (self.ca, self.cert, self.key) if file is not None)


def server_context(spec: ServerTls) -> ssl.SSLContext:
    """The context for accepting clients.  Raises BadTls."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[spec.min_version]
    context.set_alpn_protocols(_ALPN)
    _show(context, spec.cert, spec.key)
    if spec.client_ca is not None:
        _trust(context, spec.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(spec: ClientTls) -> ssl.SSLContext:
    """The context for connecting to engines.  Raises BadTls."""
    context = ssl.create_default_context() if spec.ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_ALPN)
    if spec.ca is not None:
        _trust(context, spec.ca)
    if spec.cert is not None:
        _show(context, spec.cert, spec.key or spec.cert)
    if not spec.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Kept:
    """A context that follows its files: made anew when their content changes, kept where the new is bad.

    A context is replaced, never loaded into: a connection under way keeps its own, and sessions that were
    begun under old certificates are not resumed under new ones.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[str]) -> None:
        """Make the context for the first time; raises BadTls."""
        self._make = make
        self.files = tuple(files)
        self._seen = self._digest()
        self.context = make()

    def look(self) -> bool:
        """Read the files; True when there is a new context.  Raises BadTls, once for each bad content.

        The content is compared, not its times: a swapped symlink, a file written in place and a file
        restored with its old time are all seen, and a mere touch is nothing.
        """
        digest = self._digest()
        if digest == self._seen:
            return False
        self._seen = digest
        self.context = self._make()
        return True

    def becomes(self, other: "Kept") -> None:
        """Keep what `other` keeps, for those who hold this one."""
        self._make, self.files, self._seen, self.context = (
            other._make,
            other.files,
            other._seen,
            other.context,
        )

    def _digest(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for file in self.files:
            try:
                with open(file, "rb") as opened:
                    content = opened.read()
            except OSError:
                content = b""  # `make` says which file it misses
            digest.update(len(content).to_bytes(8, "little"))
            digest.update(content)
        return digest.digest()


def kept_server(spec: ServerTls) -> Kept:
    return Kept(lambda: server_context(spec), spec.files)


def kept_client(spec: ClientTls) -> Kept:
    return Kept(lambda: client_context(spec), spec.files)


def why(error: BaseException) -> str:
    """In words, why a handshake with an engine failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message or error.reason}"
    if isinstance(error, ssl.SSLError):
        if error.reason in ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS: should its URL begin with http://?"
        return f"TLS failed: {error.reason or error}"
    return "it left during the TLS handshake"


def _show(context: ssl.SSLContext, cert: str, key: str) -> None:
    _readable(cert)
    _readable(key)
    try:
        # With a password to try, an encrypted key is an error; without one, OpenSSL asks at the terminal.
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadTls(f"{key} is not the key of the certificate in {cert}") from None
        raise BadTls(
            f"{cert} and {key} hold no certificate in PEM form with its unencrypted key"
            f" ({error.reason or 'not readable'})"
        ) from None
    except (OSError, ValueError) as error:
        raise BadTls(f"{cert} and {key} cannot be used: {error}") from None


def _trust(context: ssl.SSLContext, ca: str) -> None:
    _readable(ca)
    try:
        context.load_verify_locations(cafile=ca)
    except (OSError, ValueError) as error:
        raise BadTls(f"{ca} holds no certificates in PEM form ({error})") from None


def _readable(file: str) -> None:
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise BadTls(f"{file} cannot be read: {error.strerror}") from None
