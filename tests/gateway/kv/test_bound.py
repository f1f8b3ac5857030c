"""What is asked of engines that connect to publish, beside what they say."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from tests.connections import unheard
from tests.gateway.kv.staging import SIZE, engine, feeding, run, scripted


def test_an_engine_that_connects_to_publish_is_asked_for_what_was_before_where_it_replays(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        port = stack.enter_context(unheard())
        publisher = await scripted(stack, topic=b"kv@127.0.0.1@m")
        for word in (1, 2, 3):
            publisher.store(word)  # nobody listens yet
        replay = f"tcp://{{host}}:{publisher.replay_port}"
        known = engine("http://127.0.0.1:9", bind=f"tcp://*:{port}", replay=replay)
        async with feeding(tmp_path, known) as fed:
            publisher.connect(f"tcp://127.0.0.1:{port}")
            for word in range(4, 800):
                if fed.heard() is not None:
                    break
                publisher.store(word)
                await asyncio.sleep(0.05)
            heard = await fed.exact()
            assert fed.match([1] * SIZE) == fed.match([3] * SIZE) == {0: 1}
            assert publisher.asked[0] == 0 and not heard.publisher.ignored

    run(test)
