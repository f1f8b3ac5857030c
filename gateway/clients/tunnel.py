"""A WebSocket through the gateway: the handshake relayed, then bytes both ways until either side ends.

After the handshake nothing is read into: frames, pings, close codes and compression are the two ends' own.
Until the engine has agreed, not one byte of the client's goes to it: else a refused handshake would leave a
connection on which whatever the client wrote is taken for requests.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import TYPE_CHECKING

from gateway import access_line, head, turnstile
from gateway.admission import refusal
from gateway.admission.ticket import Ticket
from gateway.ask import Ask
from gateway.clients import upgrade
from gateway.clients.tunnel_ends import ClientEnd, End, EngineEnd
from gateway.failure import unavailable
from gateway.fleets.fleet import Engine, Fleet
from gateway.outcome import Outcome, outcome
from gateway.refused import Refused
from gateway.service import Service
from routing.types import Choice, Prompt
from wire import lent
from wire.dial import CannotConnect
from wire.exchange import Ending
from wire.handshake import Handshake
from wire.response import BODILESS_STATUS, ResponseHead
from wire.tasks import Tasks

if TYPE_CHECKING:
    from gateway.clients.server import Connection

_EARLY_BYTES = 64 << 10
_SWITCH = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
_NO_PROMPT = Prompt(model=None, chain=(), ends=(), root=0, turns=0, stream=False, max_tokens=None)


class Tunnel:
    """One client's connection and, once there is one, an engine's."""

    def __init__(
        self,
        service: Service,
        connection: "Connection",
        transport: asyncio.Transport,
        ask: Ask,
        id: bytes,
    ) -> None:
        self._service = service
        self._connection = connection
        self.ask = ask
        self._asked = ask.head
        self.id = id
        self._client = ClientEnd(self, connection, transport)
        self._end: EngineEnd | None = None
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None
        self.fleet: Fleet | None = None
        self._engine: Engine | None = None
        self._is_charged = False
        self._pending_bytes = 0
        self._is_counted = False
        self.choice: Choice | None = None  # the last one
        self.received_ns = monotonic_ns()
        self.chosen_ns = self.sent_ns = self.head_ns = 0  # of the last engine; 0 where it never came to it
        self.retries = -1  # none, until there was a first
        self.status = 0  # what the client was told, 0 when nothing
        self._ticket: Ticket | None = None  # what it holds, where requests are limited
        self._named: str | None = None  # the model for engines, where another fleet took this over
        self._degraded = b""
        self.is_open = False

    def begin(self, early: bytes) -> None:
        """Take the connection over: it is this tunnel's from here on.  `early` came behind the handshake."""
        self._service.tallies.requests += 1
        self._service.tunnels.add(self)
        self._client.transport.set_protocol(self._client)
        if early:
            self._client.data_received(early)
        self._task = self._tasks.spawn(self._open(), name="tunnel")

    # Until the engine agrees

    def client_said(self, data: bytes) -> None:
        if self.is_open:
            assert self._end is not None
            self._end.transport.write(data)
            return
        self._early.append(data)
        self._early_bytes += len(data)
        if self._early_bytes > _EARLY_BYTES:
            self._client.transport.pause_reading()

    async def _open(self) -> None:
        service = self._service
        model = upgrade.model(self._asked.target)
        fleet = self.fleet = service.fleets.named(model)
        if fleet is None:
            known = ", ".join(service.fleets.models) or "none yet"
            asked = (
                "the request names no model" if model is None else f"there is no model {model[:200]!r} here"
            )
            message = f"{asked}; there are: {known}"
            self._refuse(Refused(404, message, "unknown_model", code="model_not_found"))
            return
        if service.admission is not None:
            got = await self._turn(fleet)
            if isinstance(got, Refused):
                self._refuse(got)
                return
            fleet = self.fleet = got
        side = fleet if fleet.split is None else fleet.split.whole
        tried: tuple[int, ...] = ()
        while len(tried) <= service.limits.retries:
            chosen = turnstile.choose(
                self._ticket, service.fleets, side, _NO_PROMPT, monotonic_ns() / 1e9, tried
            )
            if chosen is None:
                break
            self._engine, choice = chosen
            self.choice, self.chosen_ns = choice, monotonic_ns()
            self.retries += 1
            self._is_charged, self._pending_bytes = True, choice.uncached_bytes
            tried += (self._engine.id,)
            try:
                end = await self._ask(self._engine)
            except CannotConnect as error:
                self._release()
                self._not_reached(self._engine, error)
                continue
            await self._answer(end, self._engine)
            return
        self._refuse(unavailable(fleet))

    async def _turn(self, fleet: Fleet) -> Fleet | Refused:
        """Ask admission, and wait for the turn: the fleet that takes it, or why none does."""
        service, key = self._service, self.ask.key
        assert service.admission is not None and key is not None
        turn: asyncio.Future[refusal.Refused | None] = service.loop.create_future()

        def came(_ticket: Ticket, refused: refusal.Refused | None) -> None:
            if not turn.done():
                turn.set_result(refused)

        got = service.admission.ask(
            key, fleet.spec.model, prompt_bytes=0, body_bytes=0, priority=self.ask.priority,
            at_ns=monotonic_ns(), on_turn=came,
        )  # fmt: skip
        if isinstance(got, refusal.Refused):
            return turnstile.turned_away(got)
        self._ticket = got
        if got.waits and (refused := await turn) is not None:
            return turnstile.turned_away(refused)
        if got.fleet == fleet.spec.model:
            return fleet
        self._named, self._degraded = got.fleet, turnstile.line(got)
        return turnstile.named(service.fleets, got.fleet)

    async def _ask(self, engine: Engine) -> EngineEnd:
        """Connect and send the handshake.  Raises CannotConnect."""
        pool, spec = self._service.pool(engine), engine.spec
        heard = self._service.loop.create_future()
        end = EngineEnd(self, pool, Handshake(self._service.limits.head_bytes), heard)
        end.other, self._client.other, self._end = self._client, end, end
        await lent.dial(pool, end)
        end.lent()
        keeps = spec.api_key is None and not self.ask.hides_credential
        asked = self._asked if keeps else upgrade.without_key(self._asked)
        model = self._named if spec.model is None else spec.model
        target = asked.target if model is None else upgrade.renamed(asked.target, model)
        same = head.to_engine(
            asked,
            target=pool.mount + target,
            authority=pool.authority,
            credential=None if spec.api_key is None else spec.api_key.encode(),
            peer=self._connection.peer,
            trusted=self.ask.trusted,
            hides_credential=self.ask.hides_credential,
        )
        if end.is_connected:
            end.transport.write(b"%b%bx-request-id: %b\r\n\r\n" % (same, _SWITCH, self.id))
            self.sent_ns = monotonic_ns()
        return end

    def _not_reached(self, engine: Engine, error: CannotConnect) -> None:
        kind = Ending.FULL if error.is_ours else Ending.REFUSED
        self._service.tallies.counts[("upstream_errors", engine.name, kind.value)] += 1
        if not error.is_ours:
            engine.failed(error.why)

    async def _answer(self, end: EngineEnd, engine: Engine) -> None:
        """Wait for what the engine says; unless it agreed, pass that on."""
        ending = Ending.TIMEOUT
        with suppress(TimeoutError):
            async with asyncio.timeout(self._service.limits.first_token_timeout_s):
                ending = await end.heard
        if self.is_open or self._is_counted:
            return
        end.abort()
        refused = end.handshake.refused
        if ending is Ending.COMPLETE and refused is not None:
            self.head_ns = monotonic_ns()
            self.status = refused.status
            engine.answered(self.head_ns)
            self._pass_on(refused, end.handshake.body)
            return
        self._service.tallies.counts[("upstream_errors", engine.name, ending.value)] += 1
        status = 504 if ending is Ending.TIMEOUT else 502
        why = f"the engine did not answer the handshake ({ending.value})"
        kind, what = f"upstream_{ending.value}", outcome(ending, 0, None)
        self._refuse(Refused(status, why, ending.value, kind=kind, what=what), is_ours=False)

    def _pass_on(self, refused: ResponseHead, body: bytes) -> None:
        """The engine's answer in place of its agreement."""
        if self._connection.grant is not None:
            refused = self._connection.grant.over(refused)
        framing = b"" if refused.status in BODILESS_STATUS else b"Content-Length: %d\r\n" % len(body)
        framing += self._degraded
        lines = b"%bx-request-id: %b\r\nConnection: close\r\n\r\n" % (framing, self.id)
        self._client.transport.write(head.to_client(refused) + lines + body)
        self.ended(outcome(Ending.COMPLETE, refused.status, None))
        self._connection.answered(monotonic_ns(), close=True)

    def _refuse(self, said: Refused, *, is_ours: bool = True) -> None:
        if is_ours:
            self._service.tallies.counts[("refused", said.reason)] += 1
        self.status = said.status
        self._connection.refuse(said, self.ask, close=True)
        self.ended(said.what)
        self._connection.answered(monotonic_ns(), close=True)

    # Once it has

    def switched(self, end: EngineEnd, agreed: ResponseHead) -> None:
        """The engine agreed: the client is told, and what either has said since goes on."""
        assert self._engine is not None
        self.head_ns = monotonic_ns()
        self.status = 101
        self._engine.answered(self.head_ns)
        self._service.fleets.prefilled(self._engine, self._pending_bytes)
        self._pending_bytes = 0
        self.is_open = True
        self._client.keep_alive()
        client = self._client.transport
        told = head.to_client(agreed) + self._degraded
        client.write(b"%b%bx-request-id: %b\r\n\r\n" % (told, _SWITCH, self.id))
        if end.handshake.rest:
            client.write(end.handshake.rest)
            end.came_bytes = len(end.handshake.rest)
        for piece in self._early:
            end.transport.write(piece)
        if self._early_bytes > _EARLY_BYTES:
            client.resume_reading()
        self._early = []

    def pace(self, end: End, *, pause: bool) -> None:
        """Read from one side no faster than the other takes it."""
        if self.is_open and end.is_connected and not end.transport.is_closing():
            if pause:
                end.transport.pause_reading()
            else:
                end.transport.resume_reading()

    def after_silence(self, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._service.loop.call_later(self._service.limits.idle_timeout_s, callback)

    def abort(self) -> None:
        """One side takes nothing any more: both are given up."""
        self.ended(Outcome.TIMEOUT)
        self._client.abort()
        if self._end is not None:
            self._end.abort()

    @property
    def bytes_in(self) -> int:
        return self._client.came_bytes

    @property
    def bytes_out(self) -> int:
        return self._end.came_bytes if self._end is not None else 0

    @property
    def engine(self) -> Engine | None:
        """The engine it has, or whose agreement it waits for."""
        return self._engine if self._is_charged else None

    def engine_left(self) -> None:
        """Its engine was taken out, and what ran there has had its time."""
        if self.is_open:
            self.ended(Outcome.SHUTDOWN)
            return
        if self._task is not None:
            self._task.cancel()
        message = "the engine was taken out before it answered"
        kind, what = "service_unavailable", Outcome.SHUTDOWN
        said = Refused(503, message, "engine_left", kind=kind, what=what, retry_after_s=1)
        self._refuse(said, is_ours=False)

    def ended(self, what: Outcome) -> None:
        """One side is gone, or the engine did not agree: the books are closed, once, and the other side."""
        if self._is_counted:
            return
        self._is_counted = True
        self._service.tunnels.discard(self)
        counts = self._service.tallies.counts
        if what is Outcome.CLIENT_GONE:
            counts[("client_gone",)] += 1
        fleet = self.fleet.name if self.fleet is not None else "none"
        engine = self.engine.name if self.engine is not None else "none"
        counts[("requests", fleet, engine, what.value)] += 1
        access_line.tunnel(self._service.access, self, what, monotonic_ns())
        self._release()
        if self._task is not None and what is Outcome.CLIENT_GONE:
            self._task.cancel()
        if self._end is not None:
            self._end.close()
        if self.is_open:
            self._client.close()
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            turnstile.ended(ticket, what, answered=self.is_open, told=None)

    def _release(self) -> None:
        if self._is_charged and self._engine is not None:
            self._is_charged = False
            assert self.choice is not None
            self._service.fleets.released(self._engine, None, self._pending_bytes)
