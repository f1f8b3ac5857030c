"""A child's end of its channel, on its event loop: what the supervisor says while the child lives."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from gateway.processes.channel import Channel, Closed

T = TypeVar("T")
# What is done with a new spec is answered once: with None, or why it could not be applied.
Done = Callable[[str | None], None]


class _Renewed(msgspec.Struct, frozen=True):
    generation: int
    spec: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True):
    generation: int
    error: str | None = None


def renewed(generation: int, spec: bytes) -> bytes:
    """The body of a `spec` message: what `compose.to_json` gave, under the number of this configuration."""
    return msgspec.json.encode(_Renewed(generation, msgspec.Raw(spec)))


def answer(body: bytes) -> tuple[int, str | None]:
    """What an `applied` message says: of which configuration, and why it was not applied."""
    told = msgspec.json.decode(body, type=_Answer)
    return told.generation, told.error


class Line:
    """The channel's messages by kind.  `spec` messages are for `changes`, all others for who `hears` them."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._specs: asyncio.Queue[bytes] = asyncio.Queue()
        self._hearers: dict[str, Callable[[bytes], None]] = {}
        self._loop.add_reader(channel.fileno(), self.come)

    def hears(self, kind: str, hearer: Callable[[bytes], None]) -> None:
        """Have `hearer(body)` called for each message of this kind."""
        self._hearers[kind] = hearer

    def say(self, kind: str, body: bytes = b"") -> bool:
        """Send a message to the supervisor; False when it cannot be taken now."""
        return self._channel.send(kind, body)

    async def changes(self, decoded: Callable[[bytes], T]) -> AsyncIterator[tuple[T, Done]]:
        """Each new spec, and what to call once it is applied or was refused."""
        while True:
            told = msgspec.json.decode(await self._specs.get(), type=_Renewed)

            def done(error: str | None, generation: int = told.generation) -> None:
                self.say("applied", msgspec.json.encode(_Answer(generation, error)))

            yield decoded(bytes(told.spec)), done

    def close(self) -> None:
        """Hear no more."""
        self._loop.remove_reader(self._channel.fileno())
        self._channel.close()

    def come(self) -> None:
        """Hear what has come so far: for who must know it before all else."""
        try:
            for kind, body in self._channel.receive():
                if kind == "spec":
                    self._specs.put_nowait(body)
                elif (hearer := self._hearers.get(kind)) is not None:
                    hearer(body)
        except Closed:  # the supervisor ended: the kernel tells this process so
            self._loop.remove_reader(self._channel.fileno())
