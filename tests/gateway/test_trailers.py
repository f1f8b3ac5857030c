"""What comes after the last chunk: an engine's goes to clients that ask for it, a client's goes nowhere."""

import pytest

from tests.support import CHAT, SSE_HEAD, TOKEN, Engine, Peer, answers, ask, event, json_answer, post, running
from tests.support_shared import run

TRAILERS = b"0\r\nX-Checksum: abc\r\nServer-Timing: total;dur=9\r\nx-checksum: d\r\n\r\n"
PASSED = b"0\r\nX-Checksum: abc\r\nServer-Timing: total;dur=9\r\nx-checksum: d\r\n\r\n"


def asking(*lines: str) -> bytes:
    return post(CHAT, "/v1/chat/completions", *lines)


@pytest.mark.parametrize(
    ("te", "passed"),
    [
        (["TE: trailers"], True),
        (["TE: gzip;q=0.5, Trailers"], True),
        (["te: gzip", "TE: trailers"], True),
        (["TE: gzip"], False),
        (["TE: nottrailers"], False),
        ([], False),
    ],
)
def test_an_engines_trailers_go_to_a_client_that_reads_them(te: list[str], passed: bool) -> None:
    async def go() -> None:
        engine = Engine(answers(SSE_HEAD, event(TOKEN), event("[DONE]"), TRAILERS))
        async with running(engine) as gateway:
            for _ in range(2):
                answered = await ask(gateway.port, asking(*te))
                assert answered.text == f"data: {TOKEN}\n\ndata: [DONE]\n\n".encode()
                assert answered.body.endswith(PASSED if passed else b"]\n\n\r\n0\r\n\r\n")
            said = {name.lower(): value for name, value in engine.asked[0].headers}
            assert said.get("te") == ("trailers" if passed else None)
            assert said.get("connection") == ("te" if passed else None)

    run(go())


def test_however_they_are_cut_they_pass_and_the_connection_is_used_again() -> None:
    async def go() -> None:
        async def script(peer: Peer) -> None:
            at = len(engine.asked) % (len(TRAILERS) + 1)
            await peer.send(SSE_HEAD, event(TOKEN), event("[DONE]"), TRAILERS[:at])
            await peer.send(TRAILERS[at:])

        engine = Engine(script)
        async with running(engine) as gateway:
            for _ in range(len(TRAILERS) + 1):
                assert (await ask(gateway.port, asking("TE: trailers"))).body.endswith(PASSED)
            assert len({id(peer.writer) for peer in engine.asked}) <= 2  # a probe may have left one, too
            assert gateway.inflight() == 0

    run(go())


def test_no_trailer_says_what_only_a_head_may() -> None:
    async def go() -> None:
        bad = (
            "Content-Type: x", "Connection: close", "Set-Cookie: a=1", "Location: /", "Host: x", "Vary: *",
            "Access-Control-Allow-Origin: *", "WWW-Authenticate: x", "Trailer: x", "Cache-Control: no-store",
        )  # fmt: skip
        end = b"0\r\n" + "".join(line + "\r\n" for line in (*bad, "X-Good: 1")).encode() + b"\r\n"
        async with running(Engine(answers(SSE_HEAD, event(TOKEN), event("[DONE]"), end))) as gateway:
            answered = await ask(gateway.port, asking("TE: trailers"))
            assert answered.body.endswith(b"\r\n0\r\nX-Good: 1\r\n\r\n")

    run(go())


def test_an_older_clients_answer_ends_without_them() -> None:
    async def go() -> None:
        async with running(Engine(answers(SSE_HEAD, event(TOKEN), event("[DONE]"), TRAILERS))) as gateway:
            answered = await ask(gateway.port, asking("TE: trailers").replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert answered.body == f"data: {TOKEN}\n\ndata: [DONE]\n\n".encode()

    run(go())


@pytest.mark.parametrize("size", [len(CHAT), 3])
def test_a_clients_trailers_are_dropped(size: int) -> None:
    """Also those of a body that streams by."""

    async def go() -> None:
        engine = Engine(answers(json_answer(b"{}")))
        async with running(engine) as gateway:
            pieces = b"".join(
                b"%x\r\n%b\r\n" % (len(CHAT[at : at + size]), CHAT[at : at + size])
                for at in range(0, len(CHAT), size)
            )
            head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nTrailer: X-Sum\r\nConnection: close\r\n"
            end = b"0\r\nX-Sum: 1\r\nAuthorization: Bearer hidden\r\n\r\n"
            answered = await ask(gateway.port, head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + end)
            assert answered.status == 200
            assert engine.asked[0].body == CHAT
            names = {name.lower() for name, _ in engine.asked[0].headers}
            assert not names & {"x-sum", "trailer", "authorization"}

    run(go())
