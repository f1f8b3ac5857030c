"""Whose word about where a request comes from is taken: proxies the operator names, and nobody else."""

import ipaddress
from collections.abc import Iterable

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Trust:
    """The networks whose `X-Forwarded-*`, `Forwarded` and internal headers are passed on.

    `networks` are addresses or CIDR blocks; ValueError says which is none.
    Asked once for each head that is parsed.
    """

    __slots__ = ("_networks",)

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: tuple[_Network, ...] = tuple(ipaddress.ip_network(one) for one in networks)

    def covers(self, peer: str) -> bool:
        """Whether the peer's address is in one of the networks; what is no address is not."""
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)
