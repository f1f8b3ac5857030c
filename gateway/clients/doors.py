"""Whether one more client connection may come in, and how many a process can carry."""

import ipaddress
from collections import defaultdict
from typing import Final

# Descriptors that are neither clients' nor engines': the loop's, listeners, the lane, logs, metrics, files
# read now and then, and refused clients that are still being told so.
_RESERVED: Final = 64

TOO_MANY: Final = "connections"
TOO_MANY_OF_ONE: Final = "connections_per_ip"


def shares(descriptors: int, connections: int) -> tuple[int, int]:
    """How many connections clients and engines may have, of so many descriptors, when clients may have
    `connections` by the config.

    A client's request needs one towards an engine too, so neither side may take what the other needs: then no
    accept and no connect ever fails for want of a descriptor, and who is turned away can be told so.
    """
    clients = max(1, min(connections, (descriptors - _RESERVED) // 2))
    return clients, max(1, descriptors - _RESERVED - clients)


class Doors:
    """Counts client connections, all of them and by address; no I/O.

    `per_ip` 0 counts no addresses: behind a balancer all clients come from a few.  An IPv6 client is its /64,
    which is the least that anybody is given.
    """

    __slots__ = ("_by_address", "inside", "most", "per_ip")

    def __init__(self, most: int, per_ip: int = 0) -> None:
        self.most = most
        self.per_ip = per_ip
        self.inside = 0
        self._by_address: dict[bytes, int] = defaultdict(int)

    def enter(self, peer: bytes) -> str | None:
        """Let a client in, to be told of with `leave`; or the reason why not."""
        if self.inside >= self.most:
            return TOO_MANY
        if self.per_ip:
            block = _block(peer)
            if self._by_address.get(block, 0) >= self.per_ip:
                return TOO_MANY_OF_ONE
            self._by_address[block] += 1
        self.inside += 1
        return None

    def leave(self, peer: bytes) -> None:
        """A client that was let in is gone."""
        self.inside -= 1
        if self._by_address:
            block = _block(peer)
            left = self._by_address.get(block, 0) - 1
            if left > 0:
                self._by_address[block] = left
            else:
                self._by_address.pop(block, None)


def _block(peer: bytes) -> bytes:
    if b":" not in peer:
        return peer
    try:
        address = ipaddress.IPv6Address(peer.decode())
    except ValueError:
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped).encode()
    return address.packed[:8]
