"""How connections to engines come about over TLS: proofs given, asked for and waived."""

import asyncio
import ssl
from pathlib import Path

import pytest
import uvloop

from tests.connections import listening
from tests.wire.certificates import Authority
from tests.wire.test_dial import Names, engines, pool
from tests.wire.test_upstream import asked
from wire.exchange import Ending
from wire.tls import ClientTls, kept_client


def serving(cert: tuple[str, str], client_ca: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*cert)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_a_verified_engine_is_used_and_its_connection_kept(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        context = serving(authority.sign("engine.test"))
        async with engines("127.0.0.1", ssl=context) as (port, came):
            trusted = kept_client(ClientTls(ca=authority.file))
            names = Names("127.0.0.1", port=port)
            async with pool(f"https://engine.test:{port}", names, credentials=trusted) as to:
                for _ in range(3):
                    assert await asked(to) == (Ending.COMPLETE, b"yes")
                    await asyncio.sleep(0.02)
                assert len(came) == 1 and to.trouble is None

    uvloop.run(test())


@pytest.mark.parametrize(
    ("host", "named", "trust", "why"),
    [
        ("engine.test", ["other.test"], True, "certificate is not valid for 'engine.test'"),
        ("127.0.0.1", ["engine.test"], True, "certificate is not valid for '127.0.0.1'"),
        ("engine.test", ["engine.test"], False, "its certificate is not trusted: "),
    ],
    ids=["another name", "a name for an address", "unknown authority"],
)
def test_an_engine_that_cannot_prove_itself_gets_nothing(
    tmp_path: Path, host: str, named: list[str], trust: bool, why: str
) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        context = serving(authority.sign(*named))
        async with engines("127.0.0.1", ssl=context) as (port, _):
            credentials = kept_client(ClientTls(ca=authority.file if trust else None))
            names = Names("127.0.0.1", port=port)
            async with pool(f"https://{host}:{port}", names, credentials=credentials) as to:
                assert await asked(to) == (Ending.REFUSED, b"") and to.open == 0
                assert to.trouble is not None and why in to.trouble

    uvloop.run(test())


def test_the_name_may_be_given_and_the_proof_waived(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        context = serving(authority.sign("inner.test"))
        async with engines("127.0.0.1", ssl=context) as (port, _):
            url = f"https://127.0.0.1:{port}"
            trusted = kept_client(ClientTls(ca=authority.file))
            async with pool(url, credentials=trusted, server_name="inner.test") as to:
                assert await asked(to) == (Ending.COMPLETE, b"yes")
            async with pool(url, credentials=kept_client(ClientTls(verify=False))) as to:
                assert await asked(to) == (Ending.COMPLETE, b"yes")
            async with pool(url) as to:
                assert await asked(to) == (Ending.REFUSED, b"")

    uvloop.run(test())


def test_an_engine_that_asks_for_a_certificate_is_shown_one(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        context = serving(authority.sign("127.0.0.1"), authority.file)
        cert, key = authority.sign("gateway.test", as_file="client")
        async with engines("127.0.0.1", ssl=context) as (port, _):
            url = f"https://127.0.0.1:{port}"
            shown = kept_client(ClientTls(ca=authority.file, cert=cert, key=key))
            async with pool(url, credentials=shown) as to:
                assert await asked(to) == (Ending.COMPLETE, b"yes")
            async with pool(url, credentials=kept_client(ClientTls(ca=authority.file))) as to:
                assert (await asked(to))[0] in (Ending.CUT, Ending.REFUSED) and to.open == 0

    uvloop.run(test())


def test_an_engine_that_speaks_no_tls_is_told_so() -> None:
    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def test() -> None:
        async with listening(talks) as port, pool(f"https://127.0.0.1:{port}") as to:
            assert await asked(to) == (Ending.REFUSED, b"")
            assert to.trouble == "it does not speak TLS: should its URL begin with http://?"

    uvloop.run(test())


def test_a_handshake_that_never_ends_is_given_up_and_leaves_nothing_open() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        async with listening(silent) as port, pool(f"https://127.0.0.1:{port}", connect_timeout_s=0.1) as to:
            assert await asked(to) == (Ending.REFUSED, b"") and to.open == 0
            assert to.trouble == "no connection within 0.1 s"

    uvloop.run(test())
