"""Open loop: each request at its instant, whether or not earlier ones are done; conversations keep order.

`open_loop` knows nothing of HTTP: it is handed what sends one request, so that the same schedule can be sent
to one server, to the arms of an experiment, or to nobody.  `HttpSender` sends to one server and reads its
stream.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import aiohttp
import msgspec

from wire.tasks import Tasks
from workload.asks import Ask
from workload.kinds import Messages, bounded, kind_of, made_up
from workload.reply import Reply, reply
from workload.words import Scale, text_of

T = TypeVar("T")
History = Literal["recorded", "engine"]


@dataclass(slots=True)
class Sent(Generic[T]):
    """What was sent, in the order in which it ended.  `shed`: more than `most_open` would have been open."""

    results: list[tuple[Ask, T]] = field(default_factory=list)
    shed: int = 0
    waited: int = 0  # for the conversation's request before it, beyond their own instant
    most_open: int = 0


async def open_loop(
    requests: Sequence[Ask],
    send: Callable[[Ask, float, T | None], Awaitable[T]],
    *,
    clock: Callable[[], float],
    most_open: int = 4096,
    until_s: float | None = None,
    into: Sent[T] | None = None,
) -> Sent[T]:
    """Send `requests`, which are in the order of `at_s`; gives all results once the last has ended.

    `send(ask, scheduled_s, earlier)` is awaited for each: `scheduled_s` is its instant on `clock`, `earlier`
    the result of `ask.after`, None where there is none.  An instant that passed while `after` was still
    running is not moved: the lag is the caller's to see.  At `until_s` what is open is left.
    Whoever may cancel this gives `into`, where the results are that there are.
    """
    sent: Sent[T] = Sent() if into is None else into
    loop = asyncio.get_running_loop()
    awaited = {ask.after for ask in requests if ask.after is not None}
    ends: dict[str, asyncio.Future[T | None]] = {}
    tasks = Tasks()
    running = 0
    idle = asyncio.Event()

    async def one(ask: Ask, scheduled_s: float) -> None:
        nonlocal running
        result: T | None = None
        try:
            before = ends.get(ask.after) if ask.after is not None else None
            if before is not None and not before.done():
                sent.waited += 1
            earlier = await asyncio.shield(before) if before is not None else None
            result = await send(ask, scheduled_s, earlier)
            sent.results.append((ask, result))
        finally:
            running -= 1
            if (end := ends.get(ask.id)) is not None and not end.done():
                end.set_result(result)
            if not running:
                idle.set()

    began_s = clock()
    try:
        async with asyncio.timeout(until_s):
            for ask in requests:
                scheduled_s = began_s + ask.at_s
                if (wait_s := scheduled_s - clock()) > 0:
                    await asyncio.sleep(wait_s)
                if running >= most_open:
                    sent.shed += 1
                    continue
                running += 1
                sent.most_open = max(sent.most_open, running)
                idle.clear()
                if ask.id in awaited:
                    ends[ask.id] = loop.create_future()
                tasks.spawn(one(ask, scheduled_s), name="request")
            if running:
                await idle.wait()
    except TimeoutError:
        pass
    finally:
        await tasks.cancel()
    return sent


class NotServedError(ValueError):
    """The server has no such path; the text has its words."""


_NOT_SERVED = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Settings:
    """How requests are made and sent.

    `history`: a turn carries the recorded history, or is built on what this server answered before.
    `extra` is merged into every body.
    """

    url: str
    model: str | None = None
    history: History = "recorded"
    ignore_eos: bool = False
    timeout_s: float = 600.0
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


class HttpSender:
    """Sends requests to one server.  `clock` gives seconds.

    `scales` are how many tokens the server makes of words on each path, where it was asked (`learn`).
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        settings: Settings,
        *,
        clock: Callable[[], float],
        scales: Mapping[str, Scale] | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._clock = clock
        self._scales = dict(scales or {})
        self._said: dict[str, Messages] = {}  # what was sent for those that others continue
        self.continued: Counter[str] = Counter()

    @property
    def url(self) -> str:
        """Where it sends to."""
        return self._settings.url

    async def learn(self, path: str, model: str | None) -> Scale:
        """Ask how many tokens the server makes of words there.  ValueError: it does not answer."""
        kind = kind_of(path)
        if kind is None:
            raise ValueError(f"no prompt can be made up for {path}")

        async def count(text: str) -> int | None:
            body = bounded(kind, made_up(Ask(0.0, "", 1, 1, path=path), text), 1)
            got = await self.post(path, body if model is None else {**body, "model": model}, 0.0)
            why = ": ".join(filter(None, (got.failure, got.words))).rstrip(".")
            if model is not None and model in (got.words or ""):
                raise ValueError(f"{self.url} refuses the model: {why}; --model NAME says which to ask for")
            if got.status in _NOT_SERVED:
                raise NotServedError(f"{self.url} does not serve {path}: {why}")
            if got.failure is not None:
                raise ValueError(f"{self.url} does not answer a first request to {path}: {why}")
            return got.prompt_tokens

        self._scales[path] = await measured_scale(count)
        return self._scales[path]

    async def send(self, ask: Ask, scheduled_s: float, earlier: Reply | None) -> Reply:
        """Send one request and read its answer to the end.  Nothing raises but being cancelled."""
        return await self.post(ask.path, self._body(ask, earlier), scheduled_s)

    async def post(self, path: str, body: Mapping[str, Any], scheduled_s: float) -> Reply:
        """Send this body."""
        reads: list[tuple[float, bytes]] = []
        status, failure = None, None
        content = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", **self._settings.headers}
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout_s)
        sent_s = self._clock()
        try:
            url = self._settings.url.rstrip("/") + path
            async with self._session.post(url, data=content, headers=headers, timeout=timeout) as response:
                status = response.status
                async for piece in response.content.iter_any():
                    reads.append((self._clock(), piece))  # noqa: PERF401 - none is lost if it breaks off
        except TimeoutError:
            failure = "timeout"
        except aiohttp.ClientError:
            failure = "refused" if status is None else "cut"
        return reply(
            reads,
            path=path,
            scheduled_s=scheduled_s,
            sent_s=sent_s,
            ended_s=self._clock(),
            status=status,
            failure=failure,
            streamed=body.get("stream") is True and status == 200,
        )

    def _body(self, ask: Ask, earlier: Reply | None) -> dict[str, Any]:
        settings, kind = self._settings, kind_of(ask.path)
        body: dict[str, Any] = dict(ask.body or {})
        if kind is not None and kind.talks:
            said = self._messages(ask, earlier, body.get(kind.prompt))
            self._said[ask.id] = said
            body = {**body, kind.prompt: said} if ask.body is not None else made_up(ask, said)
        elif kind is not None and ask.body is None:
            body = made_up(ask, self._text(ask, 0.0))
        model = settings.model or ask.model or body.get("model")
        if model is not None:
            body["model"] = model
        if kind is not None:
            body = bounded(kind, body, ask.output_tokens, ignore_eos=settings.ignore_eos)
        return {**body, **settings.extra}

    def _messages(self, ask: Ask, earlier: Reply | None, recorded: Any) -> Messages:
        if isinstance(recorded, str):
            recorded = [{"role": "user", "content": recorded}]
        said = self._said.get(ask.after) if ask.after is not None else None
        goes_on = self._settings.history == "engine" and said is not None and earlier is not None
        if goes_on and said is not None and earlier is not None and earlier.failure is None and earlier.text:
            answer = {"role": "assistant", "content": earlier.text}
            if recorded is not None:
                self.continued["engine"] += 1
                return [*said, answer, *_newest(recorded)]
            if ask.shared:
                self.continued["engine"] += 1
                answered = earlier.tokens if earlier.tokens is not None else len(earlier.token_s)
                skip = min(ask.prompt_tokens - 1.0, float(ask.shared + answered))
                return [*said, answer, {"role": "user", "content": self._text(ask, skip)}]
        self.continued["recorded"] += 1
        return recorded if recorded is not None else [{"role": "user", "content": self._text(ask, 0.0)}]

    def _text(self, ask: Ask, skip: float) -> str:
        scale = self._scales.get(ask.path, Scale())
        made = text_of(ask.blocks, ask.block_tokens, ask.prompt_tokens, scale, skip=skip, name=ask.id)
        return made or "so"


def _newest(messages: Messages) -> Messages:
    """What came after the last answer."""
    last = max((at for at, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)
    return messages[last + 1 :] or messages[-1:]


async def measured_scale(count: Callable[[str], Awaitable[int | None]]) -> Scale:
    """How many tokens a server makes of words, asked with two prompts; Scale() where it does not tell.

    `count(text)` gives a prompt's tokens, None where they are not told; what it raises goes through.
    """
    counted: list[tuple[int, int]] = []
    for n in (64, 512):
        text = text_of((n,), 512, n, Scale())
        tokens = await count(text)
        if tokens is None:
            return Scale()
        counted.append((text.count(" ") + 1, tokens))
    try:
        return Scale.of(counted[0], counted[1])
    except ValueError:
        return Scale()
