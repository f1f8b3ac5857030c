"""How the supervisor and a child speak while both live: whole messages, never waited for."""

import array
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

_MOST_KIND_BYTES = 64
# Message boundaries are kept, and where the system can, the other side's end is told.
_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM


class Closed(Exception):
    """The other side is gone."""


class Channel:
    """One end of a socket pair.

    A message is a word that says what it is, and a body that travels as an open file: it may hold keys and so
    is never on disk where the system can, and however large it is, handing it over never blocks.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    @classmethod
    def pair(cls) -> tuple["Channel", "Channel"]:
        """Two ends; whatever is sent at one comes at the other."""
        one, other = socket.socketpair(socket.AF_UNIX, _KIND)
        return cls(one), cls(other)

    def fileno(self) -> int:
        """The descriptor to wait on for something to receive."""
        return self._end.fileno()

    def send(self, kind: str, body: bytes = b"") -> bool:
        """Send a message; False when the other side is gone or has let too many wait unread."""
        with body_file(body) as file:
            try:
                carried = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))]
                self._end.sendmsg([kind.encode()], carried)
            except OSError:
                return False
        return True

    def receive(self) -> Iterator[tuple[str, bytes]]:
        """The messages that have come, oldest first; perhaps none.  Raises Closed after the last one ever."""
        while True:
            try:
                word, fds, _flags, _from = socket.recv_fds(self._end, _MOST_KIND_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                raise Closed from None
            if not word and not fds:
                raise Closed
            if not fds:  # no descriptor was free to take it
                continue
            with os.fdopen(fds[0], "rb") as file:
                file.seek(0)
                body = file.read()
            yield word.decode(), body

    def close(self) -> None:
        """Let go; the other side is told."""
        self._end.close()


def body_file(body: bytes) -> IO[bytes]:
    """`body` as a file to be read from its start: never on disk where the system can, since it holds keys."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("shadowlane"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(body)
    file.flush()
    file.seek(0)
    return file
