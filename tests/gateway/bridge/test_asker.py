"""Engines tell a prompt's token ids each in their own way."""

import asyncio
import json
from pathlib import Path

from gateway.bridge.asker import Asker, Offer
from gateway.bridge.frames import EnginePlace
from routing.bridge.fit import CHAT, Fit, fit
from tests.support import Engine, Peer

# SGLang 0.5.23's answer to {"model": "tiny", "messages": [MESSAGE]} at /tokenize, as it came.
SGLANG = Path(__file__).parents[1] / "fixtures" / "sglang_tokenize_chat.http"
MESSAGE = {"role": "user", "content": "Say hello and count to five."}


def test_sglang_is_asked_for_a_chats_ids_at_tokenize() -> None:
    async def test() -> None:
        async def script(peer: Peer) -> None:
            await peer.send(SGLANG.read_bytes())
            peer.close()

        engine = Engine(script, teaches=True)
        await engine.start()
        asker = Asker(EnginePlace(1, engine.url))
        try:
            body = {"model": "tiny", "messages": [MESSAGE], "stream": True, "max_tokens": 5}
            question = fit(CHAT, json.dumps(body).encode())
            assert isinstance(question, Fit)
            ids = await asker.ids(question)
            assert ids is not None and len(ids) == 21
            assert (ids[:3], ids[-2:]) == ([1, 3557, 201], [1632, 201])
            assert asker.tokenize is Offer.YES
            [peer] = engine.asked
            assert peer.line.startswith("POST /tokenize ")
            assert json.loads(peer.body) == {"model": "tiny", "messages": [MESSAGE]}
        finally:
            await asker.close()
            await engine.stop()

    asyncio.run(test())
