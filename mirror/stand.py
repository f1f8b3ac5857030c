"""How does an arm come to stand where only one can?  A command sees to it; it is asked until it serves."""

import asyncio
import os
import tempfile
from collections.abc import Sequence

from mirror.arms import Arm
from wire.dialect import dialect
from wire.fetch import fetch
from wire.http1 import request_bytes

_ASK_S = 5.0
_PAUSE_S = 0.25
_TAIL = 200


class Stand:
    """Brings arms by their addresses.

    `switch` is a command whose words may hold {arm} and {url}: it ends once that arm's engine is started, and
    with 0 where it was.  Empty: the engines are there, or something else starts and ends them.
    """

    def __init__(self, switch: Sequence[str], ready_s: float) -> None:
        self._switch = switch
        self._ready_s = ready_s
        self._last: str | None = None

    async def bring(self, arm: Arm) -> str | None:
        """None once the arm answers; else why not, within the time that is allowed."""
        try:
            async with asyncio.timeout(self._ready_s):
                if self._switch and self._last != arm.spec.name:
                    self._last = None
                    if (why := await self._run(arm)) is not None:
                        return why
                    self._last = arm.spec.name
                while not await _serves(arm):  # noqa: ASYNC110 - it is another process that starts
                    await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            return f"does not serve after {self._ready_s:g} s"
        return None

    async def _run(self, arm: Arm) -> str | None:
        named = {"{arm}": arm.spec.name, "{url}": arm.spec.url}
        words = []
        for word in self._switch:
            for name, value in named.items():
                word = word.replace(name, value)
            words.append(word)
        # Not a pipe: what it starts may keep its output open for as long as it runs.
        with tempfile.TemporaryFile() as said:
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError as error:
                return f"{words[0]}: {error.strerror}"
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                _end(process)
                raise
            if status == 0:
                return None
            said.seek(max(0, said.seek(0, os.SEEK_END) - _TAIL))
            tail = said.read().decode("utf-8", "replace").strip()
            return f"{words[0]} ended with {status}: {tail}"


def _end(process: asyncio.subprocess.Process) -> None:
    try:
        os.killpg(process.pid, 15)
    except ProcessLookupError:
        pass


async def _serves(arm: Arm) -> bool:
    path = arm.origin.path + dialect(arm.spec.kind).probe_path
    request = request_bytes("GET", path, [("host", arm.origin.authority), *arm.spec.headers], b"")
    return (await fetch(arm.pool, request, _ASK_S, limit_bytes=1 << 20)).status == 200
