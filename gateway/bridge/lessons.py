"""What one worker notices of each request for the bridge: what is new in it, and how well it was foretold."""

from array import array
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

from gateway.bridge.frames import Asked, Copied, Frame, Ids, Learned, Template, words
from routing.bridge.fit import CHAT, PATHS, PLAIN
from routing.bridge.novelty import Budget
from routing.policy import NOTHING_WAITS, Lasting
from routing.precise import Precise
from routing.types import Prompt

if TYPE_CHECKING:
    from gateway.fleets.engine import Engine
    from gateway.relay import Relay
    from gateway.usage import Usage


class Lessons:
    """One fleet's, and what its router is told (`routing.policy.Residency`).

    `tell` takes what is worth learning, or does not; `counts` are the worker's tallies.  Nothing about this
    knowledge fails a request: what goes wrong is counted, and all is forgotten.
    """

    def __init__(
        self,
        fleet: str,
        precise: Precise,
        tell: Callable[[Frame], bool],
        budget: Budget,
        counts: MutableMapping[tuple[str, ...], int],
    ) -> None:
        self._fleet = fleet
        self.precise = precise
        self._tell = tell
        self._budget = budget
        self._counts = counts
        self._asks = True
        self._copies = True
        self._production = False
        self._along: Prompt | None = None  # is sent with the question for its ids
        self._sealed: set[int] = set()  # engines that compress what they answer
        self._print: int | None = None

    def settle(self, budget: Budget, *, asks: bool, copies: bool, production: bool = False) -> None:
        """Whether engines may be asked, and how much; whether copies teach; whether production's requests may
        ask for their own ids."""
        self._budget = budget
        self._production = production
        self._asks = asks
        self._copies = copies

    @property
    def is_probed(self) -> bool:
        """Whether it is known what the engines' template does."""
        return self._print is not None

    def share(self, engine: int) -> float:
        """As `Residency.share`."""
        return self.precise.share(engine)

    @property
    def asks_production(self) -> bool:
        """Whether production's requests may ask for their own ids."""
        return self._production

    def rename(self, prompt: Prompt) -> None:
        """As `Residency.rename`."""
        self.precise.rename(prompt)

    def held(self, prompt: Prompt, lasting: Mapping[int, Lasting] = NOTHING_WAITS) -> Mapping[int, int]:
        """As `Residency.held`."""
        try:
            return self.precise.held(prompt, lasting)
        except Exception:
            self._failed()
            return {}

    def below(self) -> Mapping[int, tuple[int, int]]:
        """As `Residency.below`."""
        return self.precise.below()

    def sent(self, relay: "Relay", engine: int) -> None:
        """A request is on its way to an engine: learn its prompt, if that is worth it."""
        try:
            self._sent(relay, engine)
        except Exception:
            self._failed()

    def answered(self, prompt: Prompt | None, engine: int, told: "Usage") -> None:
        """An answer says what was cached of its prompt."""
        if prompt is None:
            return
        try:
            self.precise.answered(prompt, engine, told.prompt_tokens, told.cached_tokens)
        except Exception:
            self._failed()

    def wants_along(self, relay: "Relay", engine: "Engine") -> bool:
        """Whether a request that is about to be sent there is to ask for its prompt's ids itself."""
        prompt, body = relay.prompt, relay.body
        self._along = None
        if not self._production or prompt is None or body is None or not prompt.stream:
            return False
        if relay.packed is not None or relay.ask.path.path not in (CHAT, PLAIN):
            return False
        if engine.kind != "vllm" or engine.id in self._sealed:
            return False
        novel = self.precise.unlearned_bytes(prompt)
        if novel <= 0 or self._budget.refusal(novel, len(body), relay.received_ns / 1e9) is not None:
            return False
        self._along = prompt
        return True

    def told_along(self, relay: "Relay", ids: bytes) -> None:
        """A request's answer told its prompt's ids, as a JSON array."""
        prompt, body = relay.prompt, relay.body
        if prompt is None or body is None:
            return
        id = "production " + relay.id.decode("latin-1")
        if self._tell(Copied(self._fleet, id, *_chain(prompt), self.precise.block_sizes)):
            self._tell(Ids(id, relay.ask.path.path, body, text=ids))

    def cannot_sift(self, engine: int) -> None:
        """What it answers is compressed: nothing can be taken out of it."""
        self._sealed.add(engine)
        self._skipped("compressed")

    def _skipped(self, why: str) -> None:
        key = ("bridge_skipped", self._fleet, why)
        self._counts[key] = self._counts.get(key, 0) + 1

    def _failed(self) -> None:
        key = ("bridge_dropped", "failed")
        self._counts[key] = self._counts.get(key, 0) + 1
        self.precise.forget()

    def _sent(self, relay: "Relay", engine: int) -> None:
        prompt, body = relay.prompt, relay.body
        if prompt is None or body is None:
            return
        if relay.packed is not None:
            body = relay.packed.body
        copy = relay.id.decode("latin-1") if self._copies and relay.copy is not None else None
        self.sent_prompt(prompt, engine, relay.ask.path.path, body, relay.received_ns / 1e9, copy)

    def sent_prompt(
        self, prompt: Prompt, engine: int, path: str, body: bytes, at_s: float, copy: str | None = None
    ) -> None:
        """As `sent`, of a prompt alone; `copy` is the id of a copy whose token ids will come."""
        novel = self.precise.sent(prompt, engine)
        if prompt.is_raw and path in PATHS and self._asks:
            self._skipped("raw")
        if novel <= 0 or path not in PATHS:
            return
        if prompt is self._along:
            self._along = None
            return
        sizes = self.precise.block_sizes
        why = self._budget.refusal(novel, len(body), at_s) if self._asks else "asks"
        if why is None:
            self._tell(Asked(self._fleet, engine, path, body, *_chain(prompt), sizes))
        elif copy is not None:
            self._tell(Copied(self._fleet, copy, *_chain(prompt), sizes))
        elif self._asks:
            self._skipped(why)

    def heard(self, told: Learned | Template) -> None:
        """Something was learned of this fleet.  Raises MalformedFrame."""
        if isinstance(told, Template):
            if told.print != self._print:
                self._print = told.print
                self.precise.renew(told.tail_tokens, told.are_loops_apart)
            return
        chain, ends = words(told.chain, "Q"), words(told.ends, "I")
        if len(chain) == len(ends):
            blocks = {size: words(packed, "Q") for size, packed in told.blocks.items()}
            try:
                self.precise.learn(chain, ends, told.tokens, blocks, told.front_bytes, told.message_ends)
            except Exception:
                self._failed()


def _chain(prompt: Prompt) -> tuple[bytes, bytes]:
    return _packed(prompt.chain, "Q"), _packed(prompt.ends, "I")


def _packed(numbers: Sequence[int], code: str) -> bytes:
    return array(code, numbers).tobytes()
