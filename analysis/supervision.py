"""What the supervisor tells this process of the configuration, and how it is asked to read it again."""

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any

from analysis.switches import Switches


class Supervision:
    """The supervisor's last word.  `say(kind, body)` sends it a message; False when it does not hear."""

    def __init__(self, say: Callable[[str, bytes], bool]) -> None:
        self._say = say
        self._changed = asyncio.Event()
        self.switches = Switches(say)
        self.state: dict[str, Any] = {}

    def told(self, body: bytes) -> None:
        """The supervisor's state has changed."""
        self.state = json.loads(body)
        self._changed.set()

    @property
    def draining(self) -> bool:
        """Whether the gateway was told to end."""
        return bool(self.state.get("draining"))

    async def reload(self, within_s: float) -> dict[str, Any] | None:
        """Have the configuration read again; what came of it, or None when there was no answer in time.

        Experiments that it pauses are paused by then: `trouble` names the processes that have not said so.
        """
        token = secrets.token_hex(8)
        if not self._say("reload", token.encode()):
            return None
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        try:
            async with asyncio.timeout_at(until_s):
                while token not in self.state.get("answered", ()):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return None
        await self.switches.obeyed(until_s - loop.time())
        found: dict[str, Any] = self.state["config"]
        behind = dict.fromkeys(self.switches.behind, "it has not said yet that it obeys the pauses")
        return {**found, "trouble": {**behind, **found["trouble"]}} if behind else found
