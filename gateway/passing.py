"""A body too large to be read: how it goes by, piece by piece, from a client to an engine.

Its start is kept until an engine's connection takes it: as long as none does, any engine may have it.
"""

from collections.abc import Callable

from gateway import outgoing
from gateway.ask import Ask
from wire.exchange import Exchange


class Passing:
    """One such body.  `flow` asks the client to pause (True) and to go on."""

    __slots__ = ("_ask", "_exchange", "_flow", "_is_whole", "_kept", "is_taken")

    def __init__(self, ask: Ask, start: bytes, flow: Callable[[bool], None]) -> None:
        self._ask = ask
        self._flow = flow
        self._kept = [start]
        self._exchange: Exchange | None = None
        self._is_whole = False
        self.is_taken = False  # by an engine's connection

    @property
    def start(self) -> bytes:
        """What came so far, while it is not taken."""
        return b"".join(self._kept)

    def flow(self, pause: bool) -> None:
        """The engine's connection takes the body slowly, or (again) at once."""
        if not pause:
            self.is_taken = True
            self._kept = []
        self._flow(pause)

    def begun(self, exchange: Exchange) -> None:
        """An engine has what came so far, or will have it when its connection is made."""
        self._exchange = exchange
        if self._is_whole:
            self._end(exchange)

    def wait(self) -> None:
        """No engine has it: the client pauses until one's connection takes it."""
        self._exchange = None
        if not self._is_whole:
            self._flow(True)

    def piece_came(self, piece: bytes) -> None:
        if not self.is_taken:
            self._kept.append(piece)
        if self._exchange is not None and (data := outgoing.piece(self._ask, piece, last=False)):
            self._exchange.write(data)

    def ended(self) -> None:
        """The client has sent all of it."""
        self._is_whole = True
        if self._exchange is not None:
            self._end(self._exchange)

    def _end(self, exchange: Exchange) -> None:
        if data := outgoing.piece(self._ask, b"", last=True):
            exchange.write(data)
        exchange.finish()
