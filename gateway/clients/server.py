"""The client's connection: requests in, answers out, both in order."""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Sequence
from socket import IPPROTO_TCP, SO_LINGER, SOL_SOCKET, TCP_NODELAY
from typing import Final, cast

from gateway import access_line, paths, turnstile
from gateway.ask import Ask
from gateway.clients import answers, cors, own
from gateway.clients.cors import Grant
from gateway.clients.tunnel import Tunnel
from gateway.failure import unfinished
from gateway.refused import Refused
from gateway.relay import Relay
from gateway.request_id import Ids
from gateway.service import Service
from wire.clock import monotonic_ns
from wire.http1 import Body, End, Event, Malformed, RequestHead, RequestReader

_LINGER_S: Final = 2.0
_KEYED: Final = frozenset({paths.Kind.RELAY, paths.Kind.MODELS})  # who is not known may not ask
_HEARD_OUT_BYTES: Final = 256 << 10
# Pipelined events that may wait behind an answer.  Beyond them the client is not read, and so its leaving
# not seen: a few must not cost that.
_WAITING_EVENTS: Final = 16
_WAITING_BYTES: Final = 64 << 10  # behind a handshake whose turn has not come
# Closing then sends a reset, whatever was written: only so can an end not be taken for the answer's.
_RESETS: Final = struct.pack("ii", 1, 0)


class Connection:
    """One client connection; an asyncio.Protocol in all but name (see `wire.upstream`)."""

    __slots__ = (
        "_answering",
        "_ask",
        "_engine_is_full",
        "_events",
        "_going_on",
        "_head",
        "_id",
        "_ids",
        "_is_closing",
        "_keeps_alive",
        "_own",
        "_paused",
        "_reader",
        "_relay",
        "_service",
        "_transport",
        "grant",
        "is_full",
        "last_ns",
        "peer",
        "write",
    )

    write: Callable[[bytes], None]  # to the client, at once
    _transport: asyncio.Transport

    def __init__(self, service: Service, ids: Ids) -> None:
        self._service = service
        self._ids = ids
        self._reader = RequestReader(service.limits.head_bytes)
        self._events: deque[Event] = deque()
        self._head: RequestHead | None = None  # of the request being read; None between requests
        self._id = b""  # of the last request
        self._ask: Ask | None = None  # of the last request relayed
        self._answering = False  # a request was begun whose answer is not finished
        self._relay: Relay | None = None
        self._own: own.Answer | None = None  # the gateway's own answer, while no relay is needed
        self._keeps_alive = True  # as the request being answered asks
        self._going_on = False
        self._paused = False
        self._engine_is_full = False
        self._is_closing = False
        self.grant: Grant | None = None  # what the answer says to browsers, where the gateway says it
        self.is_full = False  # the client does not take what was written
        self.last_ns = monotonic_ns()
        self.peer = b"unknown"

    # The socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.write = self._transport.write
        self._service.connections.add(self)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer = str(peer[0]).encode()
            transport.get_extra_info("socket").setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        ask = self._ask
        if ask is not None and not self._answering and not self._events and not self.is_full:
            service = self._service
            body = self._reader.whole(data, ask.head) if ask.generation == service.generation else None
            if body is not None:
                self._answering = True
                self.grant = ask.grant
                self.last_ns = at_ns = monotonic_ns()
                service.tallies.requests += 1
                self._id = ask.given_id or self._ids.new()
                self._relay = relay = Relay(service, self, ask, at_ns, self._id)
                relay.whole_came(body)
                return
        was_halfway = self._reader.is_halfway
        events = self._reader.feed(data)
        if events or (self._reader.is_halfway and not was_halfway):
            self.last_ns = monotonic_ns()  # a head that dribbles in, or an empty line, is no sign of life
        self._events.extend(events)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.connections.discard(self)
        self._service.doors.leave(self.peer)
        self._is_closing = True
        self._reader.close()
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.client_gone()

    def eof_received(self) -> bool:
        return False  # a client that has said all it will is taken as gone, as nearly always it is

    def pause_writing(self) -> None:
        self.is_full = True
        if self._relay is not None:
            self._relay.pause()

    def resume_writing(self) -> None:
        self.is_full = False
        if self._relay is not None:
            self._relay.resume()
        self._go_on()

    def flow(self, pause: bool) -> None:
        """The engine takes the request's body slowly (or again): so it is read from the client."""
        self._engine_is_full = pause
        self._pace()

    def _pace(self) -> None:
        pause = not self._is_closing and (
            self._engine_is_full
            or len(self._events) > _WAITING_EVENTS
            or self._reader.rest_bytes > _WAITING_BYTES
        )
        if pause and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        elif not pause and self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    @property
    def is_idle(self) -> bool:
        """Nothing is asked or answered here, and it is not closing behind an answer that is still read."""
        return not self._answering and self._head is None and not self._is_closing

    @property
    def is_unread(self) -> bool:
        """Part of the request is still to come: the connection cannot serve another."""
        return self._head is not None

    @property
    def awaits_answer(self) -> bool:
        """A whole request, or all an engine takes of it, is with the engine: the silence is the engine's."""
        return self._answering and (self._head is None or self._engine_is_full) and not self._is_closing

    @property
    def was_made(self) -> bool:
        """It came about: where a TLS handshake comes to nothing it never does."""
        return hasattr(self, "_transport")

    @property
    def is_halfway(self) -> bool:
        """Part of a head came."""
        return self._head is None and self._reader.is_halfway

    @property
    def is_paused(self) -> bool:
        """Nothing is read from the client now, not even its end."""
        return self._paused

    @property
    def upload(self) -> tuple[int, int]:
        """Bytes that came of the body of the request being read, and how many of them wait for the rest."""
        if self._relay is not None:
            return self._relay.upload
        return (0 if self._own is None else self._own.unread_bytes), 0

    @property
    def descriptor(self) -> int:
        """The socket's, or -1 when it is closed."""
        found = self._transport.get_extra_info("socket")
        return -1 if found is None else int(found.fileno())

    def overdue(self, reason: str, status: int, message: str) -> None:
        """The request is not waited for any longer: the client is told so, or cut off from a begun answer."""
        if not self._is_closing:
            self._malformed(Malformed(message, status), reason)

    def retire(self) -> None:
        """Close an idle connection; for good when closing waits for a client that reads nothing."""
        if self._is_closing:
            self._transport.abort()
        else:
            self._is_closing = True
            self._transport.close()

    # Requests, one after the other

    def _go_on(self) -> None:
        """Handle events until one must wait for the answer before it."""
        if self._going_on:
            return  # an answer that finished within this very loop
        self._going_on = True
        events = self._events
        while events and not self._is_closing:
            event = events[0]
            if self._answering and self._head is None:
                break  # pipelined: this belongs after the answer that is under way
            if self.is_full and not self._answering:
                break  # no further answer until the ones before it are read
            events.popleft()
            if isinstance(event, RequestHead):
                self._begin(event)
            elif isinstance(event, Body):
                if self._relay is not None:
                    self._relay.body_came(event.piece)
                elif self._own is not None:
                    self._own_body_came(len(event.piece))
            elif isinstance(event, End):
                self._head = None
                if self._relay is not None:
                    self._relay.body_ended()
                else:
                    self._answer_own()
            else:
                self._malformed(event)
        self._going_on = False
        self._pace()

    def _begin(self, request: RequestHead) -> None:
        self._head = request
        self._keeps_alive = request.keep_alive
        self._answering = True
        service = self._service
        self._ask = None
        ask = Ask(request, service, self.peer)
        asked = ask.path
        self.grant = ask.grant
        self._id = ask.given_id or self._ids.new()
        if request.upgrade or request.method == b"CONNECT":
            self._head = None
            said = own.unswitched(ask, service)
            if said is None:
                tunnel = Tunnel(service, self, self._transport, ask, self._id)
                tunnel.begin(self._reader.take_rest())
                return
            service.tallies.counts[("refused", said.reason)] += 1
            self.refuse(said, ask, close=True)
            self._log(ask, said.status, self.last_ns)
            self._close_after_answer()
        elif asked.kind in _KEYED and (unknown := ask.unidentified(service)) is not None:
            self._begin_own(ask, own.refusal(turnstile.turned_away(unknown), ask, service))
        elif asked.kind is paths.Kind.RELAY or (
            asked.kind is paths.Kind.OPTIONS and service.cors is None and cors.is_preflight(request)
        ):
            service.tallies.requests += 1
            self._ask = ask
            self._relay = Relay(service, self, ask, monotonic_ns(), self._id)
            if self._relay.head_came() and request.expects_continue:
                self._transport.write(answers.CONTINUE)
        else:
            self._begin_own(ask, own.answer(ask, service))

    def _begin_own(self, ask: Ask, make: Callable[[bool], bytes]) -> None:
        """The gateway's own answer is written once the request is whole."""
        self._own = own.Answer(ask, self.last_ns, make)
        if ask.head.expects_continue:
            self._answer_own()

    def _own_body_came(self, size: int) -> None:
        """A body nobody reads: heard out when small, so that the connection can go on."""
        assert self._own is not None
        self._own.unread_bytes += size
        if self._own.unread_bytes > _HEARD_OUT_BYTES:
            self._answer_own()

    def _answer_own(self) -> None:
        answer, self._own = self._own, None
        if answer is None:
            return
        close = self.is_unread or not self._keeps_alive or self._service.draining
        said = answer.make(close)
        self._say(said, answer.ask)
        if answer.ask.path.kind is not paths.Kind.HEALTH:
            self._log(answer.ask, int(said[9:12]), answer.received_ns, answer.unread_bytes)
        self.answered(monotonic_ns(), close=close)

    def _malformed(self, event: Malformed, reason: str = "malformed") -> None:
        said = unfinished(event, reason)
        if self._relay is not None:
            self._relay.refuse(said)  # the request can never become whole
            return
        self._service.tallies.counts[("refused", reason)] += 1
        answer, self._own = self._own, None
        if answer is None:
            self.grant, self._id = None, self._ids.new()  # they were those of the request before
        self._head = None
        ask = None if answer is None else answer.ask
        self.refuse(said, ask, close=True)
        self._log(ask, said.status, self.last_ns if answer is None else answer.received_ns)
        self._close_after_answer(hear_out=True)  # whether late or not understood, it may still send

    def _log(self, ask: Ask | None, status: int, received_ns: int, bytes_in: int = 0) -> None:
        access_line.own(
            self._service.access, ask, self._id, status, received_ns, monotonic_ns(), bytes_in=bytes_in
        )

    # What relays do with it

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow the answer that is under way."""
        return self._keeps_alive and not self._service.draining

    def write_all(self, pieces: Sequence[bytes]) -> None:
        self._transport.writelines(pieces)

    def refuse(self, said: Refused, ask: Ask | None, *, close: bool = False) -> None:
        """Write an error answer of the gateway's own, `ask` being None where no head was read."""
        close = close or not self.keeps_alive or self.is_unread
        self._say(own.refused(said, ask, close=close), ask)

    def _say(self, said: bytes, ask: Ask | None) -> None:
        """Write an answer of the gateway's own, with what it says of the request and to browsers."""
        line, _, rest = said.partition(b"\r\n")
        also = b"request-id: %b\r\n" % self._id if ask is not None and ask.is_messages else b""
        said = b"%b\r\nx-request-id: %b\r\n%b%b" % (line, self._id, also, rest)
        self._transport.write(said if self.grant is None else self.grant.into(said))

    def answered(self, at_ns: int, *, close: bool) -> None:
        """The answer is whole; the next request may be read, unless the connection is to close."""
        self._answering = False
        self._engine_is_full = False
        self._relay = None
        self.last_ns = at_ns
        if close or not self._keeps_alive or self._service.draining or self.is_unread:
            self._close_after_answer()
            return
        if self._events or self._paused:
            self._go_on()

    def cut(self, *, reset: bool = False) -> None:
        """End an answer that cannot be finished so that the client sees it: no last chunk, no full length."""
        relay, self._relay = self._relay, None
        self._is_closing = True
        self.last_ns = monotonic_ns()
        if relay is not None:
            relay.client_gone()
        if reset:
            if not self._transport.is_closing():
                self._transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _RESETS)
            self._transport.abort()
        else:
            self._transport.close()

    def _close_after_answer(self, *, hear_out: bool = False) -> None:
        """Close, hearing the client out for a moment: closing on unread bytes would reset the answer away."""
        self._is_closing = True
        self._relay = None
        transport = self._transport
        if transport.is_closing():
            return
        if (hear_out or self.is_unread) and transport.can_write_eof():
            self._pace()
            transport.write_eof()
            self._service.loop.call_later(_LINGER_S, transport.abort)
        else:
            transport.close()
