"""Engines by DNS: a name's addresses, or its SRV records, looked up again when their time to live ends.

The DNS itself is asked, with the system's servers and search list, and not /etc/hosts: only so is the time to
live known.
"""

import asyncio
from collections.abc import AsyncIterator

import dns.asyncresolver
import dns.exception
import dns.resolver
from dns.rdatatype import RdataType
from dns.resolver import Answer

from gateway.discovery.source import NoAnswer, until, url
from gateway.discovery.spec import DnsSpec

_LEAST_TTL_S = 1.0
_MOST_TTL_S = 300.0
_LIFETIME_S = 5.0


class DnsSource:
    """Source of one name."""

    most_delay_s = 30.0

    def __init__(self, spec: DnsSpec) -> None:
        self._spec = spec

    async def watch(self, again: asyncio.Event) -> AsyncIterator[frozenset[str]]:
        """See `source.Source`."""
        resolver = self._resolver()
        while True:
            again.clear()
            urls, ttl_s = await self._ask(resolver)
            yield urls
            # An engine is perhaps lost while the name's servers do not know yet: not more than once a second.
            await asyncio.sleep(_LEAST_TTL_S)
            await until(again, min(max(ttl_s, _LEAST_TTL_S), _MOST_TTL_S) - _LEAST_TTL_S)

    def _resolver(self) -> dns.asyncresolver.Resolver:
        server = self._spec.server
        try:
            resolver = dns.asyncresolver.Resolver(configure=server is None)
        except dns.resolver.NoResolverConfiguration:
            raise NoAnswer("this system names no DNS server in /etc/resolv.conf; set dns.server") from None
        if server is not None:
            resolver.nameservers = [server[0]]
            resolver.port = server[1]
        return resolver

    async def _ask(self, resolver: dns.asyncresolver.Resolver) -> tuple[frozenset[str], float]:
        spec = self._spec
        if spec.port is None:
            return await self._services(resolver)
        four, six = await asyncio.gather(
            self._records(resolver, RdataType.A), self._records(resolver, RdataType.AAAA)
        )
        # A pod with an address of each kind is one engine; which two belong together DNS does not tell.
        found = four if four.rrset else six
        urls = frozenset(url(spec.scheme, record.address, spec.port) for record in found.rrset or ())
        return urls, _ttl_s(found)

    async def _services(self, resolver: dns.asyncresolver.Resolver) -> tuple[frozenset[str], float]:
        found = await self._records(resolver, RdataType.SRV)
        records = list(found.rrset or ())
        first = min((record.priority for record in records), default=0)
        urls = frozenset(
            url(self._spec.scheme, record.target.to_text(omit_final_dot=True), record.port)
            for record in records
            if record.priority == first and record.target.to_text() != "."
        )
        return urls, _ttl_s(found)

    async def _records(self, resolver: dns.asyncresolver.Resolver, kind: RdataType) -> Answer:
        try:
            return await resolver.resolve(
                self._spec.name, kind, raise_on_no_answer=False, lifetime=_LIFETIME_S, search=True
            )
        except dns.exception.DNSException as error:
            raise NoAnswer(f"{self._spec.name} cannot be resolved: {error}") from None
        except OSError as error:
            raise NoAnswer(f"no DNS server can be asked for {self._spec.name}: {error}") from None


def _ttl_s(answer: Answer) -> float:
    return float(answer.rrset.ttl) if answer.rrset else 5.0
