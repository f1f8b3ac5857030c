"""A ZeroMQ socket on an event loop: a bounded number of messages at a time, and a word of each connection.

The loop is told of something new by an edge, not by a level: what is there is read to its end, in turns of at
most 64 messages or about a megabyte, between which other sockets have theirs: one that is flooded keeps no
other from being heard.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq
from zmq.utils.monitor import parse_monitor_message

Frames = Sequence[bytes]
MOST_BYTES: Final = 8 << 20
"""A larger message ends its connection: a million tokens of a prompt and their blocks take less."""
_AT_ONCE: Final = 64
_TURN_BYTES: Final = 1 << 20
_WAITING: Final = 32  # messages kept here for one connection; what is more waits at the publisher
_WATCHED: Final = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED


class Subscription:
    """One SUB, DEALER or ROUTER socket.  `heard(frames)` is called for each message, `linked(up)` of links.

    What `heard` raises goes to `failed` and ends nothing.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        kind: int,
        heard: Callable[[Frames], None],
        failed: Callable[[Exception], None],
        linked: Callable[[bool], None] | None = None,
        *,
        waiting: int = _WAITING,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._failed = failed
        self._linked = linked
        self._closed = False
        self._is_due = False
        self._socket: zmq.Socket[bytes] = context.socket(kind)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.RCVHWM, waiting),
            (zmq.SNDHWM, 1 << 14),
            (zmq.MAXMSGSIZE, MOST_BYTES),
            (zmq.RECONNECT_IVL, 100),
            (zmq.RECONNECT_IVL_MAX, 5_000),
            (zmq.CONNECT_TIMEOUT, 5_000),
            # By TCP, not by ZeroMQ's own heartbeats, which not every publisher's library knows.
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, 15),
            (zmq.TCP_KEEPALIVE_INTVL, 5),
            (zmq.TCP_KEEPALIVE_CNT, 3),
            (zmq.IPV6, 1),
        ):
            self._socket.setsockopt(option, value)
        self._monitor: zmq.Socket[bytes] | None = None
        if linked is not None:
            self._monitor = self._socket.get_monitor_socket(_WATCHED)
            self._loop.add_reader(self._monitor, self._watch)
            self._loop.call_soon(self._watch)  # it tells of nothing new before it was once read to its end
        self._loop.add_reader(self._socket, self._soon)

    def connect(self, endpoint: str) -> None:
        """Connect, again and again until closed.  Raises zmq.ZMQError for what is no endpoint."""
        if self._socket.getsockopt(zmq.TYPE) == zmq.SUB:
            self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.connect(endpoint)
        self._soon()

    def bind(self, endpoint: str) -> str:
        """Let publishers connect; gives the address.  Raises zmq.ZMQError where that is not possible."""
        if self._socket.getsockopt(zmq.TYPE) == zmq.SUB:
            self._socket.setsockopt(zmq.SUBSCRIBE, b"")
        self._socket.bind(endpoint)
        self._soon()
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def send(self, frames: Frames) -> bool:
        """Send a message; False when it cannot be taken now."""
        try:
            self._socket.send_multipart(frames, zmq.DONTWAIT)
        except zmq.ZMQError:
            return False
        self._soon()  # sending takes the edge that would have told of an answer
        return True

    def close(self) -> None:
        """Hear no more."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket)
        if self._monitor is not None:
            self._loop.remove_reader(self._monitor)
            self._socket.disable_monitor()
            self._monitor.close()
        self._socket.close()

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_due, left_bytes = False, _TURN_BYTES
        for _ in range(_AT_ONCE):
            if self._closed:
                return
            if left_bytes <= 0:
                break
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            left_bytes -= len(frames[-1])
            self._watch()  # of the connection that it came by is known before it is heard
            self._call(self._heard, frames)
        self._soon()

    def _watch(self) -> None:
        while self._monitor is not None and not self._closed:
            try:
                said = self._monitor.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            event = parse_monitor_message(said)["event"]
            self._call(self._linked, event == zmq.Event.HANDSHAKE_SUCCEEDED)

    def _call(self, function: Callable[[Any], None] | None, argument: Any) -> None:
        if function is None:
            return
        try:
            function(argument)
        except Exception as error:
            self._failed(error)
