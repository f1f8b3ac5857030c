"""The soak's clients: they send what `asks` draws, check every byte that comes, and note how it ended."""

import asyncio
import json
import socket
import time
from dataclasses import dataclass
from random import Random

from bench.soaking.asks import CUT, LEFT, WHOLE, Ask, draw

PATIENCE_S = 40.0
STALL_S = 6.0  # longer than the gateway waits for a reader
_THINK_S = 0.03


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended.  `served_by`: the engine process that answered, where that is known."""

    ask: Ask
    outcome: str
    begun_s: float
    ended_s: float
    served_by: str
    why: str

    @property
    def is_good(self) -> bool:
        return self.outcome in self.ask.good


class _Answer:
    """What came of an answer."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.is_whole = False

    def outcome(self, ask: Ask) -> tuple[str, str, str]:
        """(outcome, engine process, what was wrong)."""
        if self.status == 0:
            return "no answer", "", ""
        if self.status != 200:
            return f"status {self.status}", "", self.body[:200].decode("latin-1")
        served_by = self.body.partition(b'"id":')[2].lstrip()[1:].partition(b'"')[0].decode("latin-1")
        if not self.is_whole or b"upstream_cut" in self.body:
            return CUT, served_by, ""
        why = self._wrong(ask)
        return ("wrong" if why else WHOLE), served_by, why

    def _wrong(self, ask: Ask) -> str:
        if ask.crc is not None:
            crc = json.loads(self.body)["crc"]
            return "" if crc == ask.crc else f"the engine received other bytes: {crc} for {ask.crc}"
        events = self.body.split(b"\n\n")
        numbers = [one.partition(b'"content":"n')[2].split(b" ")[0] for one in events if b'"content"' in one]
        if numbers != [b"%d" % n for n in range(ask.chunks or 0)]:
            return f"{len(numbers)} of {ask.chunks} events, or in another order"
        return "" if b"[DONE]" in self.body else "no [DONE]"


class Client:
    """One client: a connection kept alive as long as it can be, one request after the other."""

    def __init__(self, port: int, rng: Random, ended: list[Ended], *, heavy: bool) -> None:
        self._port = port
        self._heavy = heavy
        self._rng = rng
        self._ended = ended
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until `stop`; the last request is waited for."""
        while not stop.is_set():
            ask = draw(self._rng, self._heavy)
            begun_s = time.monotonic()
            answer = _Answer()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    left = await self._ask(ask, answer)
                outcome, served_by, why = (LEFT, "", "") if left else answer.outcome(ask)
            except TimeoutError:
                outcome, served_by, why = "stuck", "", f"nothing for {PATIENCE_S:.0f} s"
            except (OSError, asyncio.IncompleteReadError) as error:
                outcome, served_by, why = answer.outcome(ask)
                why = why or repr(error)
            self._ended.append(Ended(ask, outcome, begun_s, time.monotonic(), served_by, why))
            if outcome != WHOLE or ask.reads != "at once" or self._rng.random() < 0.05:
                self._forget()
            await asyncio.sleep(self._rng.expovariate(1 / _THINK_S))
        self._forget()

    def _forget(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, ask: Ask, answer: _Answer) -> bool:
        """Whether the client left before the end."""
        if ask.reads != "at once":
            self._forget()
        reader, writer = self._streams or await self._connect(small=ask.reads in ("slowly", "stalled"))
        self._streams = reader, writer
        writer.write(ask.raw)
        await writer.drain()
        if ask.reads == "leaves":
            try:
                await asyncio.wait_for(reader.readexactly(600), 0.3)
            except (TimeoutError, OSError, asyncio.IncompleteReadError):
                pass  # half a request was sent, or the engine died
            writer.transport.abort()
            return True
        head = await reader.readuntil(b"\r\n\r\n")
        answer.status = int(head.split(b" ", 2)[1])
        low = head.lower()
        if ask.reads == "stalled":
            await asyncio.sleep(STALL_S)
        pause_s = 0.01 if ask.reads == "slowly" else 0.0
        if b"transfer-encoding: chunked" in low:
            await self._read_chunks(reader, answer)
        else:
            length = int(low.partition(b"content-length:")[2].split(b"\r\n")[0])
            while len(answer.body) < length:
                piece = await reader.read(min(1 << 16, length - len(answer.body)))
                if not piece:
                    return False
                answer.body += piece
                await asyncio.sleep(pause_s)
        answer.is_whole = True
        return False

    async def _connect(self, *, small: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raw = socket.socket()
        raw.setblocking(False)
        if small:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self._port))
        return await asyncio.open_connection(sock=raw)

    async def _read_chunks(self, reader: asyncio.StreamReader, answer: _Answer) -> None:
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            answer.body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
