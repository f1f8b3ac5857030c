"""Engines by DNS, asked of a real server over UDP: addresses, SRV records, times to live, failures."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import uvloop

from gateway.discovery.dns import DnsSource
from gateway.discovery.spec import DnsSpec
from tests.gateway.discovery.watching import watched
from tests.support import until


@dataclass
class Server(asyncio.DatagramProtocol):
    """Answers from `records`, by name and kind; `rcode` fails all."""

    records: dict[tuple[str, str], tuple[int, list[str]]] = field(default_factory=dict)
    rcode: dns.rcode.Rcode = dns.rcode.NOERROR
    asked: int = 0
    port: int = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
        reply.set_rcode(self.rcode)
        known = {one for one, _kind in self.records}
        if self.rcode == dns.rcode.NOERROR and name not in known:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        elif self.rcode == dns.rcode.NOERROR and (name, kind) in self.records:
            ttl_s, values = self.records[name, kind]
            reply.answer.append(dns.rrset.from_text(question.name, ttl_s, "IN", kind, *values))
        self.asked += kind != "AAAA"
        self._transport.sendto(reply.to_wire(), addr)  # type: ignore[attr-defined]


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()


def source(server: Server, port: int | None = 8000, scheme: str = "http") -> DnsSource:
    return DnsSource(DnsSpec("vllm.test", port, scheme, ("127.0.0.1", server.port)))


def test_a_names_addresses_are_the_engines_and_followed_when_its_time_to_live_ends() -> None:
    async def test() -> None:
        async with serving() as server:
            server.records["vllm.test", "A"] = (1, ["10.0.0.1", "10.0.0.2"])
            async with watched(source(server)) as found:
                await found.urls("http://10.0.0.1:8000", "http://10.0.0.2:8000")
                server.records["vllm.test", "A"] = (300, ["10.0.0.2", "10.0.0.3"])
                await found.urls("http://10.0.0.2:8000", "http://10.0.0.3:8000")

    uvloop.run(test())


def test_a_long_time_to_live_ends_early_when_an_engine_is_lost_and_not_more_than_once_a_second() -> None:
    async def test() -> None:
        async with serving() as server:
            server.records["vllm.test", "A"] = (300, ["10.0.0.1"])
            async with watched(source(server)) as found:
                await found.urls("http://10.0.0.1:8000")
                server.records["vllm.test", "A"] = (300, ["10.0.0.9"])
                for _ in range(50):
                    found.again.set()
                    await asyncio.sleep(0.01)
                await found.urls("http://10.0.0.9:8000")
                assert server.asked <= 4

    uvloop.run(test())


def test_ipv6_addresses_are_in_brackets_and_used_where_there_are_no_others() -> None:
    async def test() -> None:
        async with serving() as server:
            server.records["vllm.test", "AAAA"] = (1, ["fd00::7"])
            async with watched(source(server, scheme="https")) as found:
                await found.urls("https://[fd00::7]:8000")
                server.records["vllm.test", "A"] = (1, ["10.0.0.1"])
                await found.urls("https://10.0.0.1:8000")  # the same pod has both

    uvloop.run(test())


def test_srv_records_bring_names_and_ports_of_the_first_priority() -> None:
    async def test() -> None:
        async with serving() as server:
            records = ["10 1 8001 a.test.", "10 1 8002 b.test.", "20 1 8003 spare.test."]
            server.records["vllm.test", "SRV"] = (300, records)
            async with watched(source(server, None)) as found:
                await found.urls("http://a.test:8001", "http://b.test:8002")

    uvloop.run(test())


def test_no_answer_an_empty_one_and_an_error_leave_what_was_found_and_end_by_themselves() -> None:
    async def test() -> None:
        async with serving() as server:
            server.records["vllm.test", "A"] = (1, ["10.0.0.1"])
            async with watched(source(server)) as found:
                await found.urls("http://10.0.0.1:8000")
                server.records = {("vllm.test", "TXT"): (1, ['"there, without an address"'])}
                await found.error("names no engine")
                server.records = {}
                await found.error("cannot be resolved")
                server.records = {("vllm.test", "A"): (1, ["10.0.0.1"])}
                await found.urls("http://10.0.0.1:8000")
                server.rcode = dns.rcode.SERVFAIL
                await found.error("cannot be resolved")
                server.rcode = dns.rcode.NOERROR
                await found.urls("http://10.0.0.1:8000")
                await until(lambda: server.asked > 5)

    uvloop.run(test())
