"""Probing engines: is it there, what does it serve, is it there again."""

import asyncio
import json
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from gateway.detect import kind_of
from gateway.fleet import Engine
from wire.dialect import dialect
from wire.fetch import Fetched, fetch
from wire.http1 import request_bytes
from wire.upstream import Pool

_EVERY_S = 2.0
_TIMEOUT_S = 5.0
_MODELS_EVERY = 15  # probes
_QUIET_NS = 10_000_000_000
# What tells kinds apart; asked once, of an engine whose kind the config leaves open.
_TELLING = ("/version", "/v1/models", "/props", "/server_info", "/get_model_info", "/info")


class Health:
    """Probes one engine for ever.  A slow engine is not a dead one: only refusals and errors count fast."""

    def __init__(self, engine: Engine, pool: Pool, lost: Callable[[int], None], log: Any) -> None:
        self._engine = engine
        self._pool = pool
        self._lost = lost
        self._log = log

    async def watch(self) -> None:
        """Probe about every two seconds, at once to begin with."""
        turn = 0
        while True:
            engine, was_up = self._engine, self._engine.up
            await self._probe()
            if engine.up and turn % _MODELS_EVERY == 0:
                await self._learn()
            turn += 1 if engine.up else 0
            if was_up and not engine.up:
                self._lost(engine.id)
                self._log.warning("engine down", engine=engine.name, why=engine.error)
            elif engine.up and not was_up:
                turn = 0  # it may have come back with other models
                self._log.info("engine up", engine=engine.name)
            await asyncio.sleep(_EVERY_S)

    async def _probe(self) -> None:
        engine = self._engine
        fetched = await self._get(dialect(engine.kind).probe_path)
        at_ns = monotonic_ns()
        if fetched.status == 200 or (fetched.status in (401, 403, 404, 405) and fetched.status > 0):
            engine.probed(at_ns)  # 401 and 404 are answers too: it is there and speaks HTTP
        elif fetched.status:
            engine.failed(f"its probe answered {fetched.status}")
        elif fetched.ending.value == "timeout":
            # Compiling, or in a long prefill: while anything shows life, it is slow, not dead.
            if not engine.inflight and at_ns - engine.heard_ns > _QUIET_NS:
                engine.failed("its probe got no answer")
        elif fetched.ending.value != "full":  # then nobody was asked
            engine.failed(f"its probe found no one ({fetched.why or fetched.ending.value})")

    async def _learn(self) -> None:
        """Find out what an engine is, where the config does not say, and which models it serves."""
        engine = self._engine
        if engine.kind == "auto":
            answers = {path: await self._get(path) for path in _TELLING}
            engine.kind = kind_of({path: (a.status, a.body) for path, a in answers.items() if a.status})
        engine.models = _models((await self._get("/v1/models")).body) or engine.models

    async def _get(self, path: str) -> Fetched:
        origin, key = self._pool.origin, self._engine.spec.api_key
        headers = [("host", origin.authority), ("accept", "*/*"), ("user-agent", "shadowlane")]
        if key is not None:
            headers.append(("authorization", f"Bearer {key}"))
        return await fetch(self._pool, request_bytes("GET", origin.path + path, headers), _TIMEOUT_S)


def _models(body: bytes) -> tuple[str, ...]:
    try:
        listed = json.loads(body)["data"]
        return tuple(str(model["id"]) for model in listed)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
