"""What would other policies have done with the same requests? Asked of a share of them, and not obeyed.

Two kinds of estimate (off-policy evaluation, as of a bandit's logged choices):

- Direct: what the engine that the other policy names is believed to hold of the prompt, and what is in flight
  there. It is had for each scored request; it takes the caches and loads as they are, which the obeyed policy
  has made.
- By weight: where the other policy names the engine that was chosen, the request's own outcome counts,
  divided by the chance of that choice (inverse propensity, self-normalised: sums of w * y over sums of w). It
  takes nothing for granted, but tells only of requests on which the two agree: without chance in the obeyed
  policy's choice (`temperature_s` of `prefix_cost`) it says little of the others. The square of the sum of w,
  over the sum of w^2, is how many requests it is worth.
"""

from collections.abc import Mapping, Sequence
from random import Random

from routing.policy import InFlight, Policy, watch
from routing.types import Choice, EngineLoad, Prompt


class Score:
    """One policy's sums over the requests it was scored on."""

    __slots__ = (
        "agreed",
        "cached_bytes",
        "cached_tokens_weighed",
        "first_ms_weighed",
        "inflight",
        "outcomes_weighed",
        "pending_bytes",
        "prompt_bytes",
        "prompt_tokens_weighed",
        "requests",
        "squared",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.agreed = 0  # times it named the engine that was chosen
        self.prompt_bytes = 0
        self.cached_bytes = 0  # of those, held by the engine it named
        self.inflight = 0  # met there, in sum
        self.pending_bytes = 0
        self.outcomes_weighed = 0.0  # sums of w, of w * y and of w * w
        self.squared = 0.0
        self.first_ms_weighed = 0.0
        self.prompt_tokens_weighed = 0.0
        self.cached_tokens_weighed = 0.0


class Shadow:
    """Policies by name, asked beside the one that is obeyed."""

    def __init__(self, policies: Mapping[str, Policy], rng: Random) -> None:
        self._policies = dict(policies)
        self._rng = rng
        self.scores = {name: Score() for name in policies}
        self.failed = 0  # times one of them raised

    def watch(self, flying: InFlight) -> None:
        """Where those that ask look for what is in flight: what was sent, not what they would have sent."""
        for policy in self._policies.values():
            watch(policy, flying)

    def taken(self) -> Mapping[str, Score]:
        """The scores since the last time."""
        scores, self.scores = self.scores, {name: Score() for name in self._policies}
        return scores

    def ask(
        self,
        choice: Choice,
        prompt: Prompt,
        engines: Sequence[EngineLoad],
        cached: Mapping[int, int],
    ) -> tuple[str, ...]:
        """Whom each would have chosen; the names of those that agree with `choice`."""
        agreeing: list[str] = []
        for name, policy in self._policies.items():
            try:
                other = policy.choose(prompt, engines, cached, self._rng)
            except Exception:
                self.failed += 1  # one that is only looked at must not fail a request
                continue
            score = self.scores[name]
            score.requests += 1
            score.prompt_bytes += other.cached_bytes + other.uncached_bytes
            score.cached_bytes += other.cached_bytes
            score.inflight += other.inflight
            score.pending_bytes += other.pending_bytes
            if other.engine == choice.engine:
                score.agreed += 1
                agreeing.append(name)
        return tuple(agreeing)

    def came(
        self, choice: Choice, first_s: float, prompt_tokens: int | None, cached_tokens: int | None
    ) -> None:
        """What became of a request that was asked about."""
        weight = 1.0 / choice.propensity
        for name in choice.agreeing or ():
            score = self.scores.get(name)
            if score is None:
                continue  # the configuration is another by now
            score.outcomes_weighed += weight
            score.squared += weight * weight
            score.first_ms_weighed += weight * first_s * 1e3
            if prompt_tokens is not None and cached_tokens is not None:
                score.prompt_tokens_weighed += weight * prompt_tokens
                score.cached_tokens_weighed += weight * cached_tokens
