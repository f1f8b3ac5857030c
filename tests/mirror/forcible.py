"""Engines that tell token ids, and decode those they are given: or say that they do, and decode others."""

import asyncio
import json

from mirror import forced
from tests.mirror.scripted import Request, Script


def forcible(*, lies: bool = False) -> Script:
    """Of a chat it says what its prompt's and its answer's tokens are; given tokens it decodes them.

    One that `lies` does so only where it is asked whether it can.
    """

    async def script(request: Request, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(request.body)
        said = {"choices": [{"index": 0, "token_ids": [7, 8]}], "prompt_token_ids": [1, 2, 3]}
        if request.line.split()[1].decode() == forced.PATH:
            tokens = list(asked["sampling_params"]["trace_decode_token_ids"])
            is_probe = "stream" not in asked
            said = {"choices": [{"index": 0, "token_ids": tokens if is_probe or not lies else tokens[::-1]}]}
        body = json.dumps(said).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        await writer.drain()

    return script
