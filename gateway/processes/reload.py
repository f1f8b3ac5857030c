"""How is the configuration read again: on a thread of its own, when asked to or when its file has changed?

Reading waits for disks and for arms that are asked what they are; the supervisor's loop must not.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from config.complaint import ConfigError

T = TypeVar("T")

LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What one reading gave: the configuration, or else why there is none.  `asked` are who asked for it."""

    config: T | None
    error: str | None
    asked: tuple[str, ...]


class Reader(Generic[T]):
    """Calls `read()` when asked, and when what `files` hold has changed and stays so from one look to the
    next: who is still writing gets another second.

    The content is compared, not the file's times: so an editor that renames, a symbolic link that is turned,
    as Kubernetes does it, and a change within the clock's tick are all seen.  `read` may raise ConfigError.
    """

    def __init__(
        self, read: Callable[[], T], files: Sequence[Path], *, watch: bool, look_s: float = LOOK_S
    ) -> None:
        self._read = read
        self.files = files
        self._look_s = look_s
        self.watch = watch
        self._asked: SimpleQueue[str | None] = SimpleQueue()
        self._came: SimpleQueue[Read[T]] = SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._seen = self._content()
        self._thread = Thread(target=self._live, name="config reader", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """Readable when `take` has something."""
        return self._wake_read

    def ask(self, who: str) -> None:
        """Have the configuration read now."""
        self._asked.put(who)

    def take(self) -> list[Read[T]]:
        """What was read since the last time, oldest first."""
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            pass
        found: list[Read[T]] = []
        while True:
            try:
                found.append(self._came.get_nowait())
            except Empty:
                return found

    def close(self) -> None:
        """Read no more.  A reading that waits for an engine is left behind; it ends by itself."""
        self._asked.put(None)
        self._thread.join(timeout=5.0)
        if not self._thread.is_alive():
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _live(self) -> None:
        changing = self._seen
        while True:
            asked = self._wait()
            if asked is None:
                return
            content = self._content()
            if asked:
                self._now(tuple(asked), content)
            elif self.watch and content != self._seen and content == changing:
                self._now(("file",), content)
            changing = content

    def _wait(self) -> list[str] | None:
        """Who asks; nobody when it is time to look; None at the end."""
        asked: list[str] = []
        try:
            who = self._asked.get(timeout=self._look_s)
            while who is not None:
                asked.append(who)
                who = self._asked.get_nowait()
        except Empty:
            return asked
        return None

    def _now(self, asked: tuple[str, ...], content: tuple[bytes | None, ...]) -> None:
        self._seen = content
        try:
            read = Read(self._read(), None, asked)
        except ConfigError as error:
            read = Read(None, str(error), asked)
        except Exception as error:  # whatever it is, the gateway goes on with what it has
            read = Read(None, f"the configuration cannot be read: {error!r}", asked)
        self._came.put(read)
        os.write(self._wake_write, b"!")

    def _content(self) -> tuple[bytes | None, ...]:
        """A digest of what each file holds; None for one that cannot be read."""

        def digest(file: Path) -> bytes | None:
            try:
                return hashlib.blake2b(file.read_bytes(), digest_size=16).digest()
            except OSError:
                return None

        return tuple(map(digest, self.files))
