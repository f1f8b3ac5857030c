"""How a generation request is served: read, drawn a fault, queued, streamed or collected, and let go."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from emulator.answers import Answer, StreamedAnswer
from emulator.asks import Ask, Reader
from emulator.chat_shape import ChatStream, chat_body
from emulator.completion_shape import CompletionStream, completion_body
from emulator.engine import Engine
from emulator.faults import Fault
from emulator.generate_shape import GenerateStream, generate_body
from emulator.handover import Handover
from emulator.messages_shape import MessagesStream, messages_body, messages_error
from emulator.native_api import json_answer
from emulator.refusals import Refusal, broken, unreadable
from emulator.responses_shape import ResponsesStream, responses_body
from emulator.sse import Channel, JsonTexts, Streamed


@dataclass(frozen=True, slots=True)
class Api:
    """One way to ask for text."""

    prefix: str
    read: Callable[[Reader, Mapping[str, Any]], Ask]
    stream: Callable[[Engine, Ask, str, int, Channel, JsonTexts], StreamedAnswer]
    body: Callable[[Answer], dict[str, Any]]
    error: Callable[[Refusal], Any] = lambda refusal: refusal.error

    def ask(self, reader: Reader, body: Mapping[str, Any]) -> Ask:
        """What `body` asks for; a Refusal for anything else, whatever is wrong with it."""
        try:
            return self.read(reader, body)
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            raise unreadable(error) from None


CHAT = Api("chatcmpl-", Reader.chat, ChatStream, chat_body)
COMPLETIONS = Api("cmpl-", Reader.completions, CompletionStream, completion_body)
GENERATE = Api("gen-", Reader.generate, GenerateStream, generate_body)
RESPONSES = Api("resp_", Reader.responses, ResponsesStream, responses_body)
MESSAGES = Api("chatcmpl-", Reader.messages, MessagesStream, messages_body, messages_error)


class GenerationApi:
    """Serves the generating endpoints of one engine."""

    def __init__(self, engine: Engine, reader: Reader, handover: Handover) -> None:
        self._engine = engine
        self._reader = reader
        self._handover = handover
        self._texts = JsonTexts()
        self.in_flight = 0

    async def serve(self, api: Api, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request.  Cancelled when the client leaves: its sequences are aborted."""
        body = self._reader.json(await request.content.read())
        self.in_flight += 1
        try:
            ask = api.ask(self._reader, body)
            fault = self._engine.faults.draw()
            if fault is Fault.HANG:
                await asyncio.get_running_loop().create_future()
            ask = await self._handover.received(ask)
            if ask.stream and not ask.keeps_kv:
                return await self._stream(api, ask, fault, request)
            return await self._whole(api, ask, fault, request)
        except Refusal as refusal:
            return json_answer(api.error(refusal), refusal.status)
        finally:
            self.in_flight -= 1

    async def _stream(
        self, api: Api, ask: Ask, fault: Fault | None, request: web.BaseRequest
    ) -> web.StreamResponse:
        channel = Channel(request)
        channel.head()
        answer = api.stream(self._engine, ask, *_identity(api), channel, self._texts)
        try:
            answer.begin(fault)
            answer.opened()
            await self._until_done(answer)
        except Refusal as refusal:
            answer.refuse(refusal)
        finally:
            answer.abandon()
        return Streamed(channel.keep_alive)

    async def _whole(
        self, api: Api, ask: Ask, fault: Fault | None, request: web.BaseRequest
    ) -> web.StreamResponse:
        answer = Answer(self._engine, ask, *_identity(api))
        transfer: dict[str, Any] = {}
        try:
            answer.begin(fault)
            broke = await answer.done
            if ask.keeps_kv:
                transfer = await self._handover.given(answer, broke)
        except asyncio.CancelledError:
            self._handover.forget(answer)
            raise
        finally:
            answer.abandon()
        if broke is Fault.CUT:
            if request.transport is not None:
                request.transport.abort()
            return Streamed(keep_alive=False)
        if broke is not None:
            raise broken()
        return json_answer({**api.body(answer), **transfer})

    async def _until_done(self, answer: StreamedAnswer) -> None:
        """Wait for the answer's end, with comments on a silent stream if the engine is told to send them."""
        silence = self._engine.params.sse_keep_alive_s
        while silence and not answer.done.done():
            written = answer.channel.written
            await asyncio.wait((answer.done,), timeout=silence)
            if answer.channel.written == written and not answer.done.done():
                answer.channel.write(b": keep-alive\n\n")
        await answer.done


def _identity(api: Api) -> tuple[str, int]:
    """An answer's id and creation time in seconds."""
    return api.prefix + secrets.token_hex(8), int(datetime.now(UTC).timestamp())
