"""The engine refuses with a status of its own, and the client of a stream gets a 200 with nothing in it."""

import json

import pytest

from tests.failures.support import NOT_STREAMED, ask_each, last_counts, number, told
from tests.support import CHAT, LAST, Engine, Peer, chunk, running
from tests.support_shared import run

BODY = json.dumps({"error": {"message": "zu lang: 한 🙂", "code": 1}}, ensure_ascii=False).encode()
FIELDS = b"Retry-After: 7\r\nx-ratelimit-remaining-requests: 0\r\nx-should-retry: false\r\n"
BODILESS = (204, 304)
STATUSES = [status for status in range(200, 600) if status not in BODILESS]

# How an error is spelled: head fields, the body as it is sent, the body as it is meant.
EVENT = b"data: " + BODY + b"\n\n"
FORMS = {
    "a length": (b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(BODY), BODY, BODY),
    "chunks": (
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
        chunk(BODY[:9]) + chunk(BODY[9:]) + LAST,
        BODY,
    ),
    "the connection's end": (b"Content-Type: application/problem+json\r\n", BODY, BODY),
    "an event": (
        b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n",
        chunk(EVENT) + LAST,
        EVENT,
    ),
    "a page": (b"Content-Type: text/html\r\nContent-Length: 4\r\n", b"<p/>", b"<p/>"),
    "no body": (b"Content-Length: 0\r\n", b"", b""),
}


@pytest.mark.parametrize("form", FORMS)
def test_h06_error_becomes_200_for_no_status_and_no_form(form: str) -> None:
    """Every status from 200 to 599 keeps its number, reason, body, type and advice on retrying.

    For requests of a stream and others, with and without an interim answer before.
    """
    fields, sent, meant = FORMS[form]
    content_type = [fields.split(b"\r\n")[0].decode().removeprefix("Content-Type: ")] if meant else []

    async def script(peer: Peer) -> None:
        status = STATUSES[number(peer)]
        interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" if peer.body == CHAT else b""
        await peer.send(interim + b"HTTP/1.1 %d Its Reason\r\n" % status + fields + FIELDS + b"\r\n", sent)
        if form == "the connection's end":
            peer.close()

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            for body in (CHAT, NOT_STREAMED):
                answered = await ask_each(gateway.port, len(STATUSES), body)
                for status, got in zip(STATUSES, answered, strict=True):
                    assert got.raw.startswith(b"HTTP/1.1 %d Its Reason\r\n" % status), status
                    assert got.is_whole and got.text == meant, status
                    assert got.header("content-type") == content_type
                    assert got.header("retry-after") == ["7"] and got.header("x-should-retry") == ["false"]
                    assert got.header("x-ratelimit-remaining-requests") == ["0"]
            assert (await last_counts(gateway, heard)).get("requests") == 2 * len(STATUSES)
            assert (heard.counts["client_error"], heard.counts["engine_error"]) == (200, 200)

    run(test())


@pytest.mark.parametrize("status", BODILESS)
def test_h06_error_becomes_200_for_no_answer_without_a_body_either(status: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 %d Its Reason\r\nETag: x\r\n\r\n" % status)

    async def test() -> None:
        async with running(Engine(script)) as gateway:
            for got in await ask_each(gateway.port, 3):
                assert (got.status, got.body, got.header("etag")) == (status, b"", ["x"])

    run(test())
