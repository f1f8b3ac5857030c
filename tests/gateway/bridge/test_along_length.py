"""A stream whose length was told first cannot become shorter: clients have it whole, ids and all, once."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path

from tests.gateway.bridge.test_along import ASKS, talk
from tests.gateway.bridge.test_foretold import MODEL, engine
from tests.gateway.whole import serving, with_engines
from tests.support import ask, post

_FRAMING = re.compile(rb"(?im)^(content-length|connection|transfer-encoding):.*\r\n")


async def buffered(stack: AsyncExitStack, upstream: int) -> int:
    """The port of a proxy before an engine that has all of an answer before it sends any, and its length."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                theirs_in, theirs_out = await asyncio.open_connection("127.0.0.1", upstream)
                theirs_out.write(head.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1) + body)
                start, _, said = (await theirs_in.read(-1)).partition(b"\r\n\r\n")
                theirs_out.close()
                start = _FRAMING.sub(b"", start + b"\r\n").replace(b"HTTP/1.0", b"HTTP/1.1", 1)
                writer.write(start + b"Content-Length: %d\r\n\r\n" % len(said) + said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    stack.callback(server.close)
    port: int = server.sockets[0].getsockname()[1]
    return port


def test_an_answer_with_a_length_is_whole_and_no_more_is_asked_along(tmp_path: Path) -> None:
    async def run(stack: AsyncExitStack) -> None:
        there = await engine(stack)
        port = await buffered(stack, int(there.url.rpartition(":")[2]))
        fleet = {
            "model": MODEL,
            "engines": [{"url": f"http://127.0.0.1:{port}", "kind": "vllm"}],
            "learn": ASKS,
        }
        async with serving(tmp_path, {"fleets": [fleet]}) as whole:
            told = 0
            for number in range(60):
                came = await ask(whole.port, post(talk(number, 0)))
                assert came.is_whole
                told += b'token_ids":[' in came.body
                if told and number > 20:
                    break
                await asyncio.sleep(0.2)
            assert told == 1  # where it was asked, once: then it is known that it cannot be taken out

    with_engines(run)
