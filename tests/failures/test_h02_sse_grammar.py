"""Event streams are spelled in many legal ways: CRLF or CR, no blank after the colon, comments anywhere."""

import asyncio
from itertools import product
from pathlib import Path

import pytest

from tests.failures.mirrored import content, mirrored
from tests.failures.support import ask_each, last_counts, number, numbered, told
from tests.support import CHAT, FINISH, LAST, ROLE, SSE_HEAD, TOKEN, Engine, Peer, chunk, running, until
from tests.support_shared import run

LINE_ENDS = (b"\n", b"\r\n", b"\r")
PING = b": ping"
# All ways to spell one stream: two tokens, with comments and fields that are none.
SPELLINGS = list(product(LINE_ENDS, (b"data: ", b"data:"), (b"", PING), (b"", b"event: x", b"id: 1"), (0, 1)))


def spelled(eol: bytes, data: bytes, comment: bytes, field: bytes, bom: int) -> list[bytes]:
    """The blocks of the stream, each with its blank line."""
    blocks = [comment] if comment else []
    for payload in (ROLE, TOKEN, TOKEN, FINISH, "[DONE]"):
        blocks.append((field + eol if field else b"") + data + payload.encode())
        blocks += [comment] if comment else []
    blocks[0] = b"\xef\xbb\xbf" * bom + blocks[0]
    return [block + eol + eol for block in blocks]


@pytest.mark.parametrize("together", [True, False], ids=["in one segment", "each by itself"])
def test_h02_sse_grammar_in_every_spelling_is_relayed_untouched_and_complete(together: bool) -> None:
    streams = [spelled(*spelling) for spelling in SPELLINGS]

    async def script(peer: Peer) -> None:
        stream = streams[number(peer)]
        await peer.send(SSE_HEAD)
        for part in [b"".join(stream)] if together else stream:
            await peer.send(chunk(part))
            await asyncio.sleep(0.001)
        await peer.send(LAST)

    async def test() -> None:
        async with running(Engine(script)) as gateway, told(gateway.run_dir) as heard:
            got = await ask_each(gateway.port, len(streams))
            assert [one.text for one in got] == [b"".join(stream) for stream in streams]
            assert all(one.is_whole and one.status == 200 for one in got)
            assert (await last_counts(gateway, heard)).get("complete") == len(streams)

    run(test())


BLANKS = [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n", b"\n\r", b"\r\n\r"]


@pytest.mark.parametrize("first", [b"data: " + TOKEN.encode(), PING], ids=["an event", "a comment"])
def test_h02_sse_grammar_a_first_block_is_passed_on_at_once_whatever_blank_line_ends_it(first: bytes) -> None:
    """Line ends may be mixed, as when a proxy adds comments of its own spelling."""

    async def test() -> None:
        go_on = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, chunk(first + BLANKS[number(peer)]))
            await go_on.wait()
            await peer.send(chunk(b"data: " + FINISH.encode() + b"\n\n"), LAST)

        async def one(n: int) -> bool:
            """Whether the block came while the engine was silent."""
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(numbered(n))
            try:
                await asyncio.wait_for(reader.readuntil(first), 30)
            except TimeoutError:
                return False
            finally:
                writer.close()
            return True

        async with running(Engine(script)) as gateway:
            came = await asyncio.gather(*map(one, range(len(BLANKS))))
            go_on.set()
        assert [blank for blank, at_once in zip(BLANKS, came, strict=True) if not at_once] == []

    run(test())


def test_h02_sse_grammar_comments_are_no_first_token() -> None:
    """The prompt's load waits for the token, through comments in every spelling, before and between."""
    comments = [b": ping%b%b:%b%b" % (eol, eol, eol, eol) for eol in LINE_ENDS]

    async def test() -> None:
        speak = asyncio.Event()

        async def script(peer: Peer) -> None:
            comment = comments[number(peer)]
            await peer.send(SSE_HEAD, chunk(comment), chunk(b"data: " + ROLE.encode() + b"\n\n" + comment))
            await speak.wait()
            await peer.send(chunk(b"data: " + TOKEN.encode() + b"\n\n" + comment))
            await peer.left()

        async with running(Engine(script)) as gateway:
            writers, waiting = [], 0
            for n in range(len(comments)):
                prompt = CHAT.replace(b'"hi"', b'"' + b"%d " % n * 2000 + b'"')
                reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
                writer.write(numbered(n, prompt))
                writers.append(writer)
                await asyncio.wait_for(reader.readuntil(b'"assistant"'), 30)
                before, waiting = waiting, gateway.loads.totals(0)[1]
                assert waiting > before
            speak.set()
            await until(lambda: gateway.loads.totals(0)[1] == 0)
            for writer in writers:
                writer.close()

    run(test())


def test_h02_sse_grammar_the_mirror_counts_two_tokens_and_times_the_first(tmp_path: Path) -> None:
    """Whatever the spelling: comments are no tokens, and not the first token."""

    async def test() -> None:
        cases = []
        for spelling in SPELLINGS:
            blocks = spelled(*spelling)
            before = blocks.index(next(block for block in blocks if b"tok" in block))
            cases.append((PING + b"\n\n", b"".join(blocks[:before]), b"".join(blocks[before:])))
        # A byte order mark is one only at the very beginning, where the comment now stands.
        cases = [(one, two.replace(b"\xef\xbb\xbf", b""), three) for one, two, three in cases]
        for spelling, pair in zip(SPELLINGS, await mirrored(tmp_path, cases, gap_s=0.05), strict=True):
            (answer,) = pair["answers"]
            read = content(answer)
            assert (len(read.token_events), read.choices[0].text) == (2, "toktok"), spelling
            assert read.error is None and read.finished
            assert read.token_events[0].at_ns - answer["head_ns"] > 50_000_000  # and not with the comment
            assert read.role_ns is not None and read.role_ns < read.token_events[0].at_ns

    run(test())
