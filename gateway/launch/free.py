"""Could an engine that is launched listen on a port, now and when its turn comes?"""

import errno
import os
import socket
import weakref

HOST = "127.0.0.1"  # where they all listen


def is_free(port: int) -> bool:
    """Whether an engine could listen there now."""
    for host in (HOST, "0.0.0.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((host, port))
            except OSError:
                return False
    return True


class Claims:
    """Ports that this gateway has given to engines, held against other Shadowlanes: between two starts nobody
    listens there.

    Names in the kernel's own space of sockets, freed when this process dies, for all users.
    """

    def __init__(self) -> None:
        self._held: list[int] = []  # descriptors
        weakref.finalize(self, _close, self._held)

    def claim(self, port: int) -> bool:
        """Whether no other has it; where there are no such names nobody can say."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
            try:
                claim.bind(f"\0shadowlane-port-{port}")
            except OSError as error:
                return error.errno != errno.EADDRINUSE
            self._held.append(claim.detach())
        return True


def _close(held: list[int]) -> None:
    for fd in held:
        os.close(fd)
