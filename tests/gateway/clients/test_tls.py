"""TLS towards clients: real handshakes, certificates that change, clients that must show theirs, no TLS."""

import asyncio
import os
import socket
import ssl
from collections import defaultdict
from pathlib import Path

import pytest
from structlog import wrap_logger
from structlog.testing import LogCapture

from gateway.clients.tls import Certificates
from gateway.spec import LimitsSpec, WorkerSpec
from tests.failures.support import told
from tests.support import (
    CHAT,
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Answered,
    Engine,
    Gateway,
    Peer,
    answers,
    ask,
    chunk,
    event,
    json_answer,
    parse,
    post,
    running,
    streams,
    until,
)
from tests.support_shared import run
from tests.wire.certificates import Authority
from wire.tls import ServerTls

NOT_STREAMED = CHAT.replace(b"true", b"false")


def trusting(authority: Authority, pair: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.file)
    context.set_alpn_protocols(["h2", "http/1.1"])
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(gateway: Gateway, context: ssl.SSLContext, name: str = "gw.test") -> Streams:
    return await asyncio.open_connection("127.0.0.1", gateway.port, ssl=context, server_hostname=name)


async def ask_tls(gateway: Gateway, context: ssl.SSLContext, request: bytes = b"") -> Answered:
    reader, writer = await connect(gateway, context)
    writer.write(request or post())
    raw = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return parse(raw)


async def shown(gateway: Gateway, authority: Authority) -> bytes:
    """The certificate a new client is shown."""
    _, writer = await connect(gateway, trusting(authority))
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def pem(file: str) -> bytes:
    first = Path(file).read_text().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    return ssl.PEM_cert_to_DER_cert(first)


def test_clients_are_served_over_tls_by_http_1_1(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        cert, key = authority.sign("gw.test")
        async with running(Engine(streams(TOKEN, FINISH)), tls=ServerTls(cert, key)) as gateway:
            reader, writer = await connect(gateway, trusting(authority))
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
            for _ in range(2):
                writer.write(post(close=False))
                assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
                assert b"[DONE]" in await reader.readuntil(b"0\r\n\r\n")
            writer.close()
            got = [ask_tls(gateway, trusting(authority)) for _ in range(20)]
            assert all(one.is_whole and b"tok" in one.text for one in await asyncio.gather(*got))

    run(test())


def test_large_bodies_and_answers_pass_whole_both_ways(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        cert, key = authority.sign("gw.test")
        answer = os.urandom(4 << 20)
        engine = Engine(answers(json_answer(answer)))
        async with running(engine, tls=ServerTls(cert, key)) as gateway:
            body = b'{"model":"m","messages":[],"x":"' + b"A" * (12 << 20) + b'"}'
            got = await ask_tls(gateway, trusting(authority), post(body))
            assert got.body == answer and engine.asked[0].body == body

    run(test())


def test_a_slow_reader_holds_up_the_engine_over_tls_too(tmp_path: Path) -> None:
    async def test() -> None:
        authority, sent = Authority(tmp_path), 0
        cert, key = authority.sign("gw.test")

        async def script(peer: Peer) -> None:
            nonlocal sent
            await peer.send(SSE_HEAD, event(TOKEN))
            for _ in range(3200):
                await peer.send(chunk(b"x" * 65536))
                sent += 65536

        async with running(Engine(script), tls=ServerTls(cert, key)) as gateway:
            _, writer = await connect(gateway, trusting(authority))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(post())
            await until(lambda: sent > 0)
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 64 << 20
            writer.transport.abort()
            await until(lambda: gateway.inflight() == 0)

    run(test())


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_cut_answer_has_no_clean_end_over_tls_either(tmp_path: Path, version: str) -> None:
    """Where neither chunks nor a length tell, the session ends without its end being said."""

    def ended(port: int, context: ssl.SSLContext) -> tuple[bytes, bool]:
        """What a client reads, and whether the end it sees is one of the session."""
        raw = b""
        with (
            socket.create_connection(("127.0.0.1", port), 20) as plain,
            context.wrap_socket(plain, server_hostname="gw.test", suppress_ragged_eofs=False) as client,
        ):
            client.sendall(post().replace(b"HTTP/1.1", b"HTTP/" + version.encode()))
            try:
                while piece := client.recv(65_536):
                    raw += piece
            except (ssl.SSLEOFError, ConnectionResetError):
                return raw, False
        return raw, True

    async def go() -> None:
        authority = Authority(tmp_path)
        tls = ServerTls(*authority.sign("gw.test"))

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, *[event(TOKEN)] * (3 + ends), *([LAST] if ends else []))
            peer.close()

        async with running(Engine(script), tls=tls) as gateway:
            for ends in (True, False):
                raw, is_clean = await asyncio.to_thread(ended, gateway.port, trusting(authority))
                if version == "1.0":
                    assert is_clean is ends
                else:
                    assert raw.endswith(LAST) is ends

    run(go())


def test_new_handshakes_get_a_changed_certificate_and_streams_go_on(tmp_path: Path) -> None:
    async def test() -> None:
        authority, go_on = Authority(tmp_path), asyncio.Event()
        cert, key = authority.sign("gw.test")

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            await go_on.wait()
            await peer.send(event(FINISH), b"0\r\n\r\n")

        async with running(Engine(script), tls=ServerTls(cert, key)) as gateway:
            old = pem(cert)
            assert await shown(gateway, authority) == old
            reader, writer = await connect(gateway, trusting(authority))
            writer.write(post())
            await reader.readuntil(b"tok")
            authority.sign("gw.test")
            async with asyncio.timeout(15):
                while await shown(gateway, authority) == old:
                    await asyncio.sleep(0.1)
            assert await shown(gateway, authority) == pem(cert)
            go_on.set()
            assert (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()

    run(test())


def test_a_bad_new_certificate_is_told_counted_and_not_used(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path).sign("gw.test")
    good = Path(cert).read_bytes()
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    log = LogCapture()
    spec = WorkerSpec(0, 1, (), (), LimitsSpec(), "", 0, 0, b"", tls=ServerTls(cert, key))
    certificates = Certificates(spec, counts, wrap_logger(None, processors=[log]))
    assert certificates.listener is not None
    first = certificates.listener.context
    Path(cert).write_bytes(b"nonsense")
    for _ in range(3):
        certificates.look()
    assert counts == {("tls_reloads", "bad_files"): 1} and certificates.listener.context is first
    assert [entry["log_level"] for entry in log.entries] == ["error"] and cert in log.entries[0]["why"]
    Path(cert).write_bytes(good)
    certificates.look()
    assert counts[("tls_reloads", "renewed")] == 1 and certificates.listener.context is not first


def test_a_reload_may_change_the_files_and_one_with_bad_files_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        cert, key = authority.sign("gw.test")
        async with running(Engine(streams(TOKEN, FINISH)), tls=ServerTls(cert, key)) as gateway:
            old = pem(cert)
            for bad, said in ((ServerTls(cert, cert + ".none"), "cannot be read"), (None, "restart")):
                assert said in str(await gateway.renew(tls=bad))
                assert await shown(gateway, authority) == old
            other = authority.sign("gw.test", as_file="other")
            assert await gateway.renew(tls=ServerTls(*other)) is None
            assert await shown(gateway, authority) == pem(other[0]) != old

    run(test())


def test_with_client_ca_only_clients_with_a_certificate_of_it_are_served(tmp_path: Path) -> None:
    async def test() -> None:
        (tmp_path / "other").mkdir()
        authority, stranger = Authority(tmp_path), Authority(tmp_path / "other", "other")
        cert, key = authority.sign("gw.test")
        known, unknown = authority.sign("me", as_file="me"), stranger.sign("them", as_file="them")
        tls = ServerTls(cert, key, client_ca=authority.file)
        async with running(Engine(streams(TOKEN, FINISH)), tls=tls) as gateway:
            assert (await ask_tls(gateway, trusting(authority, known))).is_whole
            for context in (trusting(authority), trusting(authority, unknown)):
                try:
                    assert not (await ask_tls(gateway, context)).raw
                except (OSError, asyncio.IncompleteReadError):
                    pass
            assert (await ask_tls(gateway, trusting(authority, known))).is_whole

    run(test())


def test_versions_older_than_configured_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        cert, key = authority.sign("gw.test")
        tls = ServerTls(cert, key, min_version="1.3")
        async with running(Engine(streams(TOKEN, FINISH)), tls=tls) as gateway:
            old = trusting(authority)
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            try:
                await connect(gateway, old)
            except OSError:
                pass
            else:
                raise AssertionError("TLS 1.2 was spoken")
            assert (await ask_tls(gateway, trusting(authority))).is_whole

    run(test())


def test_what_is_no_handshake_is_closed_and_its_place_given_back(tmp_path: Path) -> None:
    """Plain HTTP, garbage, half a handshake, silence, a client that leaves: closed in time, counted out."""

    async def test() -> None:
        authority = Authority(tmp_path)
        cert, key = authority.sign("gw.test")
        limits = LimitsSpec(handshake_timeout_s=0.3, connections=4, drain_s=1)
        async with running(
            Engine(streams(TOKEN, FINISH)), tls=ServerTls(cert, key), limits=limits
        ) as gateway:
            for _ in range(3):
                for said in (post(), b"\x16\x03\x01", b"\x00" * 500, b""):
                    got = await ask(gateway.port, said)
                    assert not got.raw.startswith(b"HTTP/1.1 200")
                for _ in range(3):
                    socket.create_connection(("127.0.0.1", gateway.port)).close()
            assert (await ask_tls(gateway, trusting(authority))).is_whole

    run(test())


def test_clients_in_their_handshake_count_as_connected(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        cert, key = authority.sign("gw.test")
        limits = LimitsSpec(handshake_timeout_s=30, connections=2, drain_s=1)
        async with (
            running(Engine(streams(TOKEN, FINISH)), tls=ServerTls(cert, key), limits=limits) as gateway,
            told(gateway.run_dir) as heard,
        ):
            for _ in range(3):  # who was served has left once, and not twice
                assert (await ask_tls(gateway, trusting(authority))).is_whole
            await until(
                lambda: heard.counts.get("requests") == 3 and heard.frames[-1]["connections"] == 0, 30
            )
            silent = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(2)]
            assert (await ask(gateway.port, b"\x16\x03\x01")).raw == b""  # closed at once
            for _, writer in silent:
                writer.close()

            async def served() -> bool:
                try:
                    return (await ask_tls(gateway, trusting(authority))).is_whole
                except OSError:
                    return False

            async with asyncio.timeout(30):
                while not await served():
                    await asyncio.sleep(0.05)

    run(test())
