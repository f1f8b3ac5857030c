"""The operator's command sees text before it is written: what it does not give back is not."""

import asyncio
from pathlib import Path
from typing import Any

from tests.analysis.test_scrub import UPPER, command
from tests.failures.shadowed import served
from tests.recording.staging import answer, at_rest, chat, recorded
from tests.support import Engine, answers, until


def test_only_what_the_command_gives_back_is_written(tmp_path: Path) -> None:
    async def scene() -> None:
        engine = Engine(answers(*answer("walrus-canary said", 9, 2)))
        more: dict[str, Any] = {"redact": (r"secret",), "redact_command": command(UPPER), "packing": "none"}
        async with recorded(tmp_path, engine, text=True, **more) as there:
            for n in range(5):
                assert await served(there.gateway, chat(f"a secret zebra-canary {n}"))
            await until(lambda: there.folder.exists() and at_rest(tmp_path)[0].count(b"ZEBRA") == 5, 30)
            found = await there.ended()
        written, _ = at_rest(tmp_path)
        assert b"canary" not in written and b"secret" not in written
        said = [one.request["messages"][0]["content"] for one in found if one.request is not None]
        assert said == [f"A [REDACTED] ZEBRA-CANARY {n}" for n in range(5)]
        assert all(one.answer is None and one.output_length == 2 for one in found)

    asyncio.run(scene())
