"""How does a conversation reach a server?  An HTTP client that streams, takes turns, and counts every ending.

Arrivals are an open loop: a conversation starts at its instant whether or not earlier ones are done.  When
`most_open` conversations are open, the next is not sent and counted as `shed`, so that a slow server is not
hidden by a client that waits for it.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp
import msgspec

from wire.tasks import Tasks
from workload.prompts import Conversation

# The text of a delta, as it stands in the stream.  A quotation mark inside a text is escaped, so this
# cannot match there.
_CONTENT = re.compile(rb'"content"\s*:\s*"((?:[^"\\]|\\.)*)"')
_FIRST_TEXT = re.compile(rb'"content"\s*:\s*"[^"]')
_DONE = b"data: [DONE]"


class Outcome(StrEnum):
    """How a request ended.  STATUS is an answer other than 200; CUT a stream without its closing event."""

    OK = "ok"
    STATUS = "status"
    CUT = "cut"
    TIMEOUT = "timeout"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back for one request: times in seconds from sending it, None where there was none."""

    outcome: Outcome
    text: str
    status: int | None
    ttft_s: float | None
    e2e_s: float


@dataclass(slots=True)
class Tally:
    """What has been sent and how it ended.  Times are kept for requests that ended well."""

    conversations: int = 0
    shed: int = 0
    requests: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    ttft_s: list[float] = field(default_factory=list)
    e2e_s: list[float] = field(default_factory=list)

    @property
    def failed(self) -> int:
        return sum(self.outcomes.values()) - self.outcomes[Outcome.OK]

    def count(self, answer: Answer) -> None:
        self.outcomes[answer.outcome] += 1
        if answer.outcome is Outcome.STATUS and answer.status is not None:
            self.statuses[answer.status] += 1
        if answer.outcome is Outcome.OK:
            self.e2e_s.append(answer.e2e_s)
            if answer.ttft_s is not None:
                self.ttft_s.append(answer.ttft_s)


class Sender:
    """Runs conversations against one server.  `clock` gives seconds and only differences of it are used."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        model: str,
        *,
        clock: Callable[[], float],
        timeout_s: float = 60.0,
        most_open: int = 256,
    ) -> None:
        self.tally = Tally()
        self._session = session
        self._url = base_url.rstrip("/") + "/v1/chat/completions"
        self._model = model
        self._clock = clock
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._most_open = most_open
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def send(self, arrivals: Iterable[tuple[float, Conversation]], until_s: float | None) -> Tally:
        """Start each conversation at its instant (seconds from now); leave what is open at `until_s`."""
        tasks = Tasks()
        started_s = self._clock()
        try:
            async with asyncio.timeout(until_s):
                for at_s, conversation in arrivals:
                    wait_s = at_s - (self._clock() - started_s)
                    if wait_s > 0:
                        await asyncio.sleep(wait_s)
                    if self._open >= self._most_open:
                        self.tally.shed += 1
                        continue
                    self._open += 1
                    self._idle.clear()
                    tasks.spawn(self._run(conversation), name="conversation")
                await self._idle.wait()
        except TimeoutError:
            pass  # the time is up: that is how an endless workload ends
        finally:
            await tasks.cancel()
        return self.tally

    async def converse(self, conversation: Conversation) -> list[Answer]:
        """Take all turns; each answer goes into the history of the next.  Ends early after a failure."""
        messages: list[dict[str, str]] = []
        if conversation.system:
            messages.append({"role": "system", "content": conversation.system})
        answers: list[Answer] = []
        for turn in conversation.turns:
            if turn.think_s:
                await asyncio.sleep(turn.think_s)
            messages.append({"role": "user", "content": turn.user})
            answer = await self.ask(messages, turn.max_tokens, conversation.temperature)
            answers.append(answer)
            if answer.outcome is not Outcome.OK:
                break
            messages.append({"role": "assistant", "content": answer.text})
        return answers

    async def ask(self, messages: list[dict[str, str]], max_tokens: int, temperature: float) -> Answer:
        """Send one streamed request and read the answer to its end."""
        body = msgspec.json.encode(
            {
                "model": self._model,
                "messages": messages,
                "max_tokens": max_tokens,
                "temperature": temperature,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
        self.tally.requests += 1
        answer = await self._exchange(body)
        self.tally.count(answer)
        return answer

    async def _run(self, conversation: Conversation) -> None:
        self.tally.conversations += 1
        try:
            await self.converse(conversation)
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()

    async def _exchange(self, body: bytes) -> Answer:
        started_s = self._clock()
        came = bytearray()
        ttft_s: float | None = None
        status: int | None = None
        headers = {"Content-Type": "application/json"}
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, timeout=self._timeout
            ) as response:
                status = response.status
                async for chunk in response.content.iter_any():
                    came += chunk
                    if ttft_s is None and _FIRST_TEXT.search(came):
                        ttft_s = self._clock() - started_s
            whole = Outcome.OK if _DONE in came else Outcome.CUT
            outcome = whole if status == 200 else Outcome.STATUS
        except TimeoutError:
            outcome = Outcome.TIMEOUT
        except aiohttp.ClientError:
            outcome = Outcome.REFUSED if status is None else Outcome.CUT
        text = streamed_text(bytes(came)) if outcome is Outcome.OK else ""
        return Answer(outcome, text, status, ttft_s, self._clock() - started_s)


def streamed_text(stream: bytes) -> str:
    """The text of a streamed chat answer: the contents of its deltas, joined and then unescaped once."""
    text: Any = msgspec.json.decode(b'"' + b"".join(_CONTENT.findall(stream)) + b'"')
    return str(text)
