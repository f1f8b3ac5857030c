"""Probing engines: is it there, what does it serve, is it there again."""

import asyncio
import json
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from gateway.fleets.detect import kind_of
from gateway.fleets.fleet import Engine
from gateway.fleets.outlier import Reason, State
from gateway.fleets.reported import NOTHING, reported, take_in
from gateway.spec import HealthSpec
from wire.dialect import dialect
from wire.exchange import Ending
from wire.fetch import Fetched, fetch
from wire.http1 import request_bytes
from wire.upstream import Pool

_MODELS_EVERY = 15  # probes
# What tells kinds apart; asked once, of an engine whose kind the config leaves open.
_TELLING = ("/version", "/v1/models", "/props", "/server_info", "/get_model_info", "/info")


class Health:
    """Probes one engine for ever.  A slow engine is not a dead one: only refusals and errors count fast.

    `lost` is called when nobody is there any more: perhaps its address is another.  `busy` says whether any
    worker has requests there.
    """

    def __init__(
        self,
        engine: Engine,
        pool: Pool,
        lost: Callable[[], None],
        log: Any,
        spec: Callable[[], HealthSpec] = HealthSpec,
        busy: Callable[[], bool] = lambda: False,
        metrics_every: int = 1,
    ) -> None:
        """`metrics_every`: with so many probes the engine's metrics are read once."""
        self._engine = engine
        self._pool = pool
        self._lost = lost
        self._log = log
        self._spec = spec
        self._busy = busy
        self._metrics_every = metrics_every
        self._has_metrics = True

    async def watch(self) -> None:
        """Probe every few seconds, at once to begin with."""
        turn, engine, was = 0, self._engine, self._engine.standing.state
        while True:
            await self._probe()
            # What requests found between two probes is told here too.
            was, before = engine.standing.state, was
            if was is not before:
                self._tell(before, was)
                if was is State.GONE:
                    self._lost()
                elif before in (State.GONE, State.NEW):
                    turn = 0  # it may have come back with other models
            if engine.is_there:
                if turn % _MODELS_EVERY == 0:
                    await self._learn()
                if self._has_metrics and not engine.tells_load and turn % self._metrics_every == 0:
                    await self._read_metrics()
                turn += 1
            await asyncio.sleep(self._spec().probe_every_s)

    def _tell(self, before: State, now: State) -> None:
        name = self._engine.name
        if now is State.GONE:
            self._log.warning("engine down", engine=name, why=self._engine.error)
        elif now is State.EJECTED:
            self._log.warning("engine left out for a while", engine=name, why=self._engine.error)
        elif now is State.TRIAL:
            self._log.info("engine on trial", engine=name)
        else:
            self._log.info("engine up", engine=name, after=before.value)

    async def _probe(self) -> None:
        engine = self._engine
        fetched = await self._get(dialect(engine.kind).probe_path)
        at_ns = monotonic_ns()
        if fetched.status == 200 or fetched.status in (401, 403, 404, 405):
            engine.probed(at_ns)  # 401 and 404 are answers too: it is there and speaks HTTP
        elif fetched.status:
            engine.failed(f"its probe answered {fetched.status}", Reason.PROBE)
        elif fetched.ending is Ending.TIMEOUT:
            # Compiling, or in a long prefill: while anything shows life, it is slow, not dead.
            quiet_ns = int(self._spec().quiet_s * 1e9)
            if not engine.inflight and not self._busy() and at_ns - engine.heard_ns > quiet_ns:
                engine.failed("its probe got no answer", Reason.PROBE)
        elif fetched.ending is not Ending.FULL:  # then nobody was asked
            engine.failed(f"its probe found no one ({fetched.why or fetched.ending.value})", Reason.PROBE)

    async def _learn(self) -> None:
        """Find out what an engine is, where the config does not say, and which models it serves."""
        engine = self._engine
        if engine.kind == "auto":
            answers = {path: await self._get(path) for path in _TELLING}
            engine.kind = kind_of({path: (a.status, a.body) for path, a in answers.items() if a.status})
        self._has_metrics = True  # perhaps: it is asked once more
        engine.models = _models((await self._get("/v1/models")).body) or engine.models

    async def _read_metrics(self) -> None:
        """What the engine says of its load; one that has no metrics is left alone for a while."""
        engine = self._engine
        fetched = await self._get(dialect(engine.kind).metrics_path)
        if engine.tells_load:
            return  # meanwhile it began to tell it unasked
        take_in(engine.load, reported(fetched.body) if fetched.status == 200 else NOTHING)
        self._has_metrics = fetched.status in (0, 200) or fetched.status >= 500

    async def _get(self, path: str) -> Fetched:
        origin, key = self._pool.origin, self._engine.spec.api_key
        headers = [("host", origin.authority), ("accept", "*/*"), ("user-agent", "shadowlane")]
        if key is not None:
            headers.append(("authorization", f"Bearer {key}"))
        timeout_s = self._spec().probe_timeout_s
        return await fetch(self._pool, request_bytes("GET", origin.path + path, headers), timeout_s)


def _models(body: bytes) -> tuple[str, ...]:
    try:
        listed = json.loads(body)["data"]
        return tuple(str(model["id"]) for model in listed)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()
