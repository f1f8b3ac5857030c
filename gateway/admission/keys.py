"""Whose request is this?  API keys, known by their hashes only."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable

from gateway.admission.bucket import Bucket

SCHEME = "sha256:"
PREFIX = "sl-"
KEY_BYTES = 32
ANONYMOUS = "anonymous"
_NOBODY = bytes(32)


class Used:
    """What the requests of a key came to, since the worker started."""

    __slots__ = ("cached_tokens", "output_tokens", "prompt_tokens", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0


class Key:
    """One client and what it may ask; all its requests are counted and limited together."""

    __slots__ = ("concurrency", "held_at", "name", "priority", "requests", "slot", "tokens", "used", "weight")

    def __init__(
        self,
        name: str,
        slot: int,
        *,
        weight: float = 1.0,
        priority: int = 1,
        concurrency: int | None = None,
        requests: Bucket | None = None,
        tokens: Bucket | None = None,
        held_at: int = 0,
        used: "Used | None" = None,
    ) -> None:
        self.name = name
        self.slot = slot
        self.weight = weight
        self.priority = priority
        self.concurrency = concurrency
        self.requests = requests
        self.tokens = tokens
        self.held_at = held_at  # where the table counts what this worker holds for it
        self.used = Used() if used is None else used


class KeyRing:
    """The keys that are known, and who comes without one."""

    __slots__ = ("_anonymous", "_by_start", "takes_any")

    def __init__(self, keys: Iterable[tuple[bytes, Key]], anonymous: Key | None) -> None:
        """`keys`: (SHA-256 of the key, whose it is).  `anonymous` is who comes without a key, where one may.

        Without any key, every request is anonymous, whatever its credential, which is the engine's to judge.
        """
        self._by_start: dict[bytes, list[tuple[bytes, Key]]] = {}
        for digest, key in keys:
            self._by_start.setdefault(digest[:8], []).append((digest, key))
        self._anonymous = anonymous
        self.takes_any = not self._by_start

    def identify(self, credential: bytes) -> Key | None:
        """Whose request has this `Authorization` (or `x-api-key`) field; b"" for none.  None: not known here.

        The digest's first 8 bytes find the candidates, which tells nothing about a key, and the whole digest
        is compared in constant time.
        """
        if self.takes_any or not credential:
            return self._anonymous
        if credential[:7].lower() == b"bearer ":
            credential = credential[7:].strip()
        digest = hashlib.sha256(credential).digest()
        for known, key in self._by_start.get(digest[:8], ()):
            if hmac.compare_digest(known, digest):
                return key
        hmac.compare_digest(_NOBODY, digest)
        return None


def new_key(random: Callable[[int], bytes]) -> str:
    """A new key: 256 bits of `random`, so that its plain SHA-256 is safe to keep."""
    return PREFIX + urlsafe_b64encode(random(KEY_BYTES)).rstrip(b"=").decode()


def hashed(key: str) -> str:
    """What the configuration holds in the key's place."""
    return SCHEME + hashlib.sha256(key.encode()).hexdigest()


def digest_of(text: str) -> bytes:
    """The digest in what `hashed` wrote.  ValueError when it is something else."""
    digest = bytes.fromhex(text.removeprefix(SCHEME))
    if not text.startswith(SCHEME) or len(digest) != 32:
        raise ValueError("no hash of a key")
    return digest
