"""One request as admission sees it: what it took, and the one place that gives it back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.admission.keys import Key
from gateway.admission.refusal import Refused

if TYPE_CHECKING:
    from gateway.admission.admit import Admission

OnTurn = Callable[["Ticket", Refused | None], None]
NO_SEAT = -1
# Where a ticket is in its life; it never goes back.
WAITING, RUNNING, ENDED = range(3)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an engine said it read and wrote, in tokens, none below 0: who reads the answer sees to that."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


class Ticket:
    """A request that was let in: it runs, or waits for its turn and is called back.

    Exactly one ending counts: `done`, `failed` or `leave`, whichever comes first; later ones do nothing.
    """

    __slots__ = (
        "_admission", "body_bytes", "charged", "degraded", "entered_ns", "fleet", "key", "on_turn",
        "priority", "prompt_tokens", "seat", "shorten_to", "state", "waited_ns",
    )  # fmt: skip

    def __init__(
        self, admission: "Admission", key: Key, fleet: str | None, priority: int, prompt_tokens: int,
        body_bytes: int, entered_ns: int, on_turn: OnTurn,
    ) -> None:  # fmt: skip
        self._admission = admission
        self.key = key
        self.fleet = fleet  # its model; another than was asked for where it fell back
        self.priority = priority
        self.prompt_tokens = prompt_tokens  # the estimate that was taken
        self.body_bytes = body_bytes
        self.entered_ns = entered_ns
        self.on_turn = on_turn
        self.state = WAITING
        self.seat = NO_SEAT
        self.charged = 0  # against its key's fair share
        self.waited_ns = 0  # for its turn
        self.shorten_to: int | None = None
        self.degraded: str | None = None

    @property
    def waits(self) -> bool:
        """Whether its turn has not come yet: `on_turn` will be called with it, and with why when refused."""
        return self.state is WAITING

    def full(self) -> tuple[int, ...]:
        """Engines of its fleet with no room left for it, to be left out of the choice."""
        return tuple(id for id in self._admission.full(self.fleet) if id != self.seat)

    def sit(self, engine: int) -> bool:
        """Take a place at an engine, leaving the one taken before; False: it is full, choose again."""
        return self._admission.sit(self, engine)

    def done(self, usage: Usage | None, at_ns: int) -> None:
        """Something was answered.  What was taken is corrected by `usage`; without it the estimate stands."""
        self._admission.end(self, usage, at_ns, gives_back=self.state is WAITING)

    def failed(self, at_ns: int) -> None:
        """Nothing was served and it was no fault of the client's: it costs nothing."""
        self._admission.end(self, None, at_ns, gives_back=True)

    def leave(self, at_ns: int) -> None:
        """The client left.  A turn that had not come costs nothing; what an engine may have done is paid."""
        self._admission.end(self, None, at_ns, gives_back=self.state is WAITING)
