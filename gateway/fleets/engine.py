"""One production engine as a worker sees it: may it be chosen, how loaded is it, what is held against it?"""

from collections.abc import Sequence
from random import random
from typing import TYPE_CHECKING, Final

from gateway.fleets import outlier
from gateway.fleets.outlier import Reason, Standing, State
from gateway.spec import EngineSpec, HealthSpec
from gateway.usage import Usage
from routing.rates import Learner, Sample
from routing.types import Choice, EngineLoad, Prompt

if TYPE_CHECKING:
    from gateway.fleets.fleet import Fleet

# What is learned from in a second, at most.
_SAMPLES: Final = 256
_BYTES_PER_TOKEN: Final = 4.0  # until it is learned


class Engine:
    """What is known of one engine now.  `load` is that of all workers; `inflight` is this worker's own."""

    __slots__ = (
        "_up",
        "answers",
        "capacity_bytes",
        "errors",
        "fleet",
        "heard_ns",
        "id",
        "inflight",
        "kind",
        "learner",
        "life_ns",
        "load",
        "models",
        "name",
        "on_trial",
        "samples",
        "spec",
        "standing",
        "tells_load",
        "token_ns",
        "used_bytes",
    )

    def __init__(self, spec: EngineSpec, *, up: bool = True) -> None:
        """`up`: used before a probe or a request has said anything, as when a restarted worker must serve."""
        self.spec = spec
        self.id = spec.id
        self.name = spec.url
        self.kind = spec.kind
        self._up = up
        self.on_trial = False  # may be chosen once; say so with `tried`
        self.standing = Standing(State.GOOD if up else State.NEW)
        self.fleet: Fleet | None = None
        self.models: tuple[str, ...] = ()
        self.inflight = 0
        self.capacity_bytes = 0  # of its KV cache, as far as it is known
        self.used_bytes = 0  # of prompts in flight, by this worker alone
        self.load = EngineLoad(spec.id, 0, 0)
        self.tells_load = False  # unasked, so that its metrics need not be read
        self.learner = Learner()
        self.samples: list[Sample] = []  # since the last second
        self.heard_ns = 0  # when the last answer began, to a request or a probe
        self.token_ns = 0  # when the last first token came; whoever sees it writes it here
        self.life_ns = 0  # when an answer that runs was read from last, as the last sweep saw it
        self.answers = 0
        self.errors = 0

    @property
    def up(self) -> bool:
        """May be chosen; `gateway.fleets.outlier` decides."""
        return self._up

    @up.setter
    def up(self, up: bool) -> None:
        if up != self._up:
            self._up = up
            if self.fleet is not None:
                self.fleet.changed()

    @property
    def is_there(self) -> bool:
        """Somebody answers at its address, well or badly.  False as well of one that was never heard."""
        return self.standing.state not in (State.GONE, State.NEW)

    @property
    def is_good(self) -> bool:
        return self.standing.state is State.GOOD

    @property
    def error(self) -> str | None:
        """What is held against it, in words."""
        standing = self.standing
        return standing.why if standing.misses or standing.state is not State.GOOD else None

    def answered(self, at_ns: int) -> None:
        """The head of an answer came, of whatever status: slow is not dead."""
        self.heard_ns = at_ns
        self.answers += 1

    def erred(self, why: str, at_ns: int) -> None:
        """That answer was a 5xx, or a stream that began with an error of that kind."""
        if outlier.erred(self, self._peers, why, self._rules, at_ns, random):
            self._settle()

    def timed_out(self, sent_ns: int, at_ns: int) -> None:
        """A request sent at `sent_ns` was given up without a first token."""
        if outlier.timed_out(self, self._peers, sent_ns, self.life_ns, self._rules, at_ns, random):
            self._settle()

    def tried(self) -> None:
        """It was chosen while `on_trial`."""
        outlier.tried(self)
        self._settle()

    def failed(self, why: str, reason: Reason = Reason.CONNECT) -> None:
        """A request or a probe found nobody there."""
        if outlier.missed(self, why, reason, self._rules):
            self._settle()
        if self.fleet is not None and not self.is_there:
            self.fleet.router.engine_lost(self.id)  # what it held is gone, and what it was asked in vain

    def probed(self, at_ns: int) -> None:
        """A probe succeeded: an engine that was gone is used again from now on."""
        self.heard_ns = at_ns
        if outlier.found(self, at_ns):
            self._settle()

    def streamed(self, choice: Choice, sent_ns: int, token_ns: int, last_ns: int, told: Usage | None) -> None:
        """A stream of its ended well: learn from its instants.  `told` is what it said of its tokens."""
        if len(self.samples) >= _SAMPLES:
            return
        prompt_bytes = choice.cached_bytes + choice.uncached_bytes
        # What it was alone with, and what it is alone with now: about the batch that it decoded in.
        batch = (choice.inflight + self.load.inflight) / 2.0 + 1.0
        self.samples.append(
            Sample(
                token_ns / 1e9,
                (token_ns - sent_ns) / 1e9,
                (last_ns - token_ns) / 1e9,
                prompt_bytes,
                choice.uncached_bytes,
                choice.pending_bytes,
                batch,
                None if told is None else told.prompt_tokens,
                None if told is None else told.cached_tokens,
                None if told is None else told.completion_tokens,
                choice.below,
                choice.credited_bytes,
            )
        )

    def asked(self, prompt: Prompt) -> None:
        """It was sent that: room in its cache goes to an answer, about as long as others were."""
        rates = self.load.rates
        if rates is not None:
            tokens, most = rates.output_tokens, prompt.max_tokens
            self.said(prompt, int(tokens if most is None or tokens < most else most))

    def said(self, prompt: Prompt, tokens: int) -> None:
        """So many tokens are its answer: they are in its cache, too."""
        if self.fleet is not None:
            self.fleet.router.told(self.id, prompt, int(tokens * self._bytes_per_token))

    def size_memory(self) -> None:
        """Let what is remembered of it be as large as its KV cache, where that is known."""
        load, fleet = self.load, self.fleet
        if load.kv_tokens is None or fleet is None:
            return
        capacity_bytes = int(load.kv_tokens * self._bytes_per_token)
        # Not anew with every sample: less room forgets, and more does not bring it back.
        if abs(capacity_bytes - self.capacity_bytes) > 0.05 * self.capacity_bytes:
            self.capacity_bytes = capacity_bytes
            fleet.router.holds(self.id, capacity_bytes)

    @property
    def _bytes_per_token(self) -> float:
        rates = self.load.rates
        return _BYTES_PER_TOKEN if rates is None else rates.bytes_per_token

    @property
    def _peers(self) -> Sequence["Engine"]:
        return self.fleet.engines if self.fleet is not None else (self,)

    @property
    def _rules(self) -> HealthSpec:
        return self.fleet.spec.health if self.fleet is not None else HealthSpec()

    def _settle(self) -> None:
        if self.fleet is not None:  # one that was taken out stays out
            outlier.settle(self.fleet.engines)

    def is_now(self, spec: EngineSpec) -> None:
        """The same engine under a new config: what is known of it stays, its key or paths may be others."""
        if spec.kind != self.spec.kind and spec.kind != "auto":
            self.kind = spec.kind
        self.spec = spec

    def leave(self) -> None:
        """It was taken out: no request is sent to it any more; nothing probes it back."""
        self.up = False  # while its fleet is still told
        self.fleet = None
