"""KV handed from engine to engine: kept by the one that prefills until the other fetches it over HTTP.

vLLM's way: a request with `do_remote_decode` has its blocks kept; its answer says where they lie; a request
that brings those words has them fetched, whoever sends it.  SGLang's way: both engines are asked at once with
the same room; the one that decodes goes there and waits, the one that prefills answers when it was there.
What is fetched is checked: another prompt, engine or room is an error, as with the real ones.
"""

import asyncio
import secrets
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from aiohttp import web
from xxhash import xxh3_64_hexdigest

from emulator.answers import Answer
from emulator.asks import Ask
from emulator.engine import Engine, Live
from emulator.faults import Fault
from emulator.native_api import json_answer
from emulator.refusals import Refusal, broken

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _Room:
    """Where two legs meet: `ready` is the digest of the prompt that is computed, None when it failed."""

    ready: asyncio.Future[str | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    fetched: asyncio.Event = field(default_factory=asyncio.Event)


class Handover:
    """One engine's side of it.  `kept` are the answers whose blocks wait; `fetches` counts those it made."""

    def __init__(self, engine: Engine, host: str, port: int) -> None:
        self._engine = engine
        self._host = host
        self._port = port
        self._way = engine.params.handover
        self._id = f"emulated-{secrets.token_hex(8)}"
        self._rooms: dict[int, _Room] = {}
        self._session: aiohttp.ClientSession | None = None
        self.kept: dict[str, list[Live]] = {}
        self.fetches = 0

    @property
    def routes(self) -> dict[str, dict[str, _Handler]]:
        """What other engines ask of this one."""
        return {"/kv/fetch": {"POST": self._fetched}, "/kv/room": {"POST": self._visited}}

    async def close(self) -> None:
        """Close the connections to other engines."""
        if self._session is not None:
            await self._session.close()

    async def received(self, ask: Ask) -> Ask:
        """The request with what is to become of its KV, fetched where it lies elsewhere.  Raises Refusal."""
        if self._way == "vllm":
            given = ask.body.get("kv_transfer_params") or {}
            if given.get("do_remote_prefill"):
                await self._fetch(given, ask)
                return replace(ask, fetched_kv=True)
            return replace(ask, keeps_kv=True) if given.get("do_remote_decode") else ask
        if not self._way:
            return ask
        if ask.body.get("bootstrap_room") is None:
            text = "Disaggregated request received without bootstrap room id."
            raise Refusal(400, text, "BadRequestError", "bootstrap_room")
        if self._way == "sglang-prefill":
            return replace(ask, keeps_kv=True, wishes=[replace(wish, max_tokens=1) for wish in ask.wishes])
        await self._visit(ask)
        return replace(ask, fetched_kv=True)

    def forget(self, answer: Answer) -> None:
        """The client left before it heard where the KV lies: nobody can come for it."""
        for live in answer.lives:
            self._engine.scheduler.let_go(live)

    async def given(self, answer: Answer, broke: Fault | None) -> dict[str, Any]:
        """What the answer of a leg that prefills says of its KV; in SGLang's way when it was fetched."""
        if self._way == "sglang-prefill":
            await self._wait_in_rooms(answer, broke)
            return {}
        if broke is not None or any(live.plan.finish_reason != "length" for live in answer.lives):
            for live in answer.lives:  # vLLM hands over what was ended by its limit, and nothing else
                self._engine.scheduler.let_go(live)
            return {"kv_transfer_params": None}
        self.kept[answer.id] = answer.lives
        asyncio.get_running_loop().call_later(self._engine.params.handover_wait_s, self._let_go, answer.id)
        params = {
            "do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": _blocks(answer.lives),
            "remote_engine_id": self._id, "remote_request_id": answer.id, "remote_host": self._host,
            "remote_port": self._port, "tp_size": 1,
        }  # fmt: skip
        return {"kv_transfer_params": params}

    def _let_go(self, answer_id: str) -> None:
        for live in self.kept.pop(answer_id, ()):
            self._engine.scheduler.let_go(live)

    # vLLM's way

    async def _fetch(self, given: Mapping[str, Any], ask: Ask) -> None:
        at = f"http://{given.get('remote_host')}:{given.get('remote_port')}/kv/fetch"
        asked = {name: given.get(f"remote_{name}") for name in ("engine_id", "request_id", "block_ids")}
        if not await self._post(at, {**asked, "digest": _digest(ask)}):
            raise broken()

    async def _fetched(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = await request.json()
        lives = self.kept.get(asked["request_id"])
        if lives is None or asked["engine_id"] != self._id or asked["block_ids"] != _blocks(lives):
            return json_answer({"error": "no such KV"}, 409)
        if asked["digest"] != _digest_of([live.lease.tokens[: live.prompt_tokens] for live in lives]):
            return json_answer({"error": "the KV of another prompt"}, 409)
        self._let_go(asked["request_id"])
        return json_answer({})

    # SGLang's way

    async def _visit(self, ask: Ask) -> None:
        body = ask.body
        hosts, ports, rooms = (
            _all(body.get(f"bootstrap_{name}"), len(ask.prompts)) for name in ("host", "port", "room")
        )
        for host, port, room, prompt in zip(hosts, ports, rooms, ask.prompts, strict=True):
            at = f"http://{host}:{port}/kv/room"
            if not await self._post(at, {"room": room, "digest": _digest_of([prompt])}):
                raise broken()

    async def _visited(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = await request.json()
        room = self._rooms.setdefault(asked["room"], _Room())
        digest = await asyncio.wait_for(asyncio.shield(room.ready), self._engine.params.handover_wait_s)
        if digest != asked["digest"]:
            return json_answer({"error": "no such KV"}, 409)
        room.fetched.set()
        return json_answer({})

    async def _wait_in_rooms(self, answer: Answer, broke: Fault | None) -> None:
        names = _all(answer.ask.body.get("bootstrap_room"), len(answer.lives))
        rooms = [self._rooms.setdefault(name, _Room()) for name in names]
        try:
            for room, live in zip(rooms, answer.lives, strict=True):
                if room.ready.done():
                    raise Refusal(400, "This bootstrap room is taken.", "BadRequestError", "bootstrap_room")
                prompt = live.lease.tokens[: live.prompt_tokens]
                room.ready.set_result(None if broke is not None else _digest_of([prompt]))
            if broke is None:
                async with asyncio.timeout(self._engine.params.handover_wait_s):
                    for room in rooms:
                        await room.fetched.wait()
        except TimeoutError:
            raise broken() from None
        finally:
            for name, live in zip(names, answer.lives, strict=True):
                self._rooms.pop(name, None)
                self._engine.scheduler.let_go(live)

    async def _post(self, url: str, body: Mapping[str, Any]) -> bool:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(url, json=body) as answer:
                self.fetches += answer.status == 200
                return answer.status == 200
        except (aiohttp.ClientError, ValueError):
            return False


def _all(given: Any, count: int) -> list[Any]:
    return list(given) if isinstance(given, list) else [given] * count


def _blocks(lives: Sequence[Live]) -> list[int]:
    return [block for live in lives for block in live.lease.blocks]


def _digest(ask: Ask) -> str:
    return _digest_of(ask.prompts)


def _digest_of(prompts: Sequence[Sequence[int]]) -> str:
    return xxh3_64_hexdigest(b"|".join(array("I", prompt).tobytes() for prompt in prompts))
