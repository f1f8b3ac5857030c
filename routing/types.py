"""The words of routing: what was asked, what is known of an engine, what was decided.

What is made or read for every request is a plain class with slots: so it is compiled to a native one.
"""

from collections.abc import Mapping, Sequence


class Prompt:
    """One request, as far as routing needs to see it.

    `chain[i]` names the prompt's canonical bytes up to `ends[i]`: two prompts share `chain[i]` exactly when
    the model, the salts and everything up to there are the same. `ends` rises strictly and counts the prompt
    itself (tools, documents, messages), not the model's name or the salts. An image counts as its digest.
    `root` is the conversation: the hash through the first user message; without messages, of all. `turns` are
    the assistant's messages so far; 0 is a conversation's first turn. `session` is what the client names by a
    header or a field, hashed; 0: it names none. `is_raw`: the chain is of the body's bytes as they are, whose
    places say nothing of the text's. `open_at`: from that link on there is thinking in a loop of tools that
    no message of the user's has closed (`routing.loops`); -1: there is none.
    """

    __slots__ = (
        "chain",
        "ends",
        "is_raw",
        "max_tokens",
        "model",
        "open_at",
        "root",
        "session",
        "stream",
        "turns",
    )

    def __init__(
        self,
        model: str | None,
        chain: Sequence[int],
        ends: Sequence[int],
        root: int,
        turns: int,
        stream: bool,
        max_tokens: int | None,
        session: int = 0,
    ) -> None:
        self.is_raw = False
        self.open_at = -1
        self.model = model
        self.chain = chain
        self.ends = ends
        self.root = root
        self.turns = turns
        self.stream = stream
        self.max_tokens = max_tokens
        self.session = session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prompt) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash((self.model, self.root, self.turns))

    def _all(self) -> tuple[object, ...]:
        return (
            self.model, self.chain, self.ends, self.root, self.turns, self.stream, self.max_tokens,
            self.session, self.is_raw, self.open_at,
        )  # fmt: skip


class Rates:
    """What was learned of an engine: how fast it computes prompts, and how its tokens slow down in a batch.

    Changed in place by whoever learns; a figure is of use once there are enough samples (`routing.rates`).
    """

    __slots__ = (
        "attention_s_per_token2",
        "bytes_per_token",
        "host_credit",
        "host_samples",
        "itl_s",
        "itl_s_per_request",
        "output_tokens",
        "prefill_s_per_token",
        "samples",
        "start_s",
        "store_credit",
        "store_samples",
    )

    def __init__(
        self,
        samples: int = 0,
        prefill_s_per_token: float = 0.0,
        attention_s_per_token2: float = 0.0,
        start_s: float = 0.0,
        itl_s: float = 0.0,
        itl_s_per_request: float = 0.0,
        output_tokens: float = 0.0,
        bytes_per_token: float = 4.0,
        host_credit: float = 0.0,
        store_credit: float = 0.0,
        host_samples: float = 0.0,
        store_samples: float = 0.0,
    ) -> None:
        """`samples`: first tokens that were learned from; 0: nothing is known but the other defaults.

        A prompt of L tokens of which n are not cached takes about `start_s + prefill_s_per_token * n +
        attention_s_per_token2 * n * (L - n / 2)`; a token of an answer in a batch of b about
        `itl_s + itl_s_per_request * b`; an answer has about `output_tokens`. A token that can be loaded from
        the host's memory, or from a store, saves that share of its computation (`routing.credits`): 0 until
        enough answers showed it, which is what the last two count.
        """
        self.samples = samples
        self.prefill_s_per_token = prefill_s_per_token
        self.attention_s_per_token2 = attention_s_per_token2
        self.start_s = start_s
        self.itl_s = itl_s
        self.itl_s_per_request = itl_s_per_request
        self.output_tokens = output_tokens
        self.bytes_per_token = bytes_per_token
        self.host_credit = host_credit
        self.store_credit = store_credit
        self.host_samples = host_samples
        self.store_samples = store_samples


class EngineLoad:
    """What is known of one engine at this moment. Its owner goes on changing it: not to be kept.

    Of what was sent there by all workers: `inflight`, requests not yet ended; `awaiting`, those of them that
    await their first token (the others decode); `pending_bytes`, the uncached prompt bytes
    (`Choice.uncached_bytes`) of those that await it; `context_bytes`, the prompt bytes, cached or not, of all
    in flight, which is what they keep in the KV cache at least.

    As the engine itself reports, None where it does not: `running` and `queued` requests, `kv_usage` (0..1),
    `kv_tokens` (its KV cache's size), `block_tokens`, `prefill_tokens` (uncached prompt tokens it has yet to
    compute); `reported_bytes` is what `context_bytes` was when that was said.

    `rates`: what was learned of its speed; None where nobody learns.
    """

    __slots__ = (
        "awaiting",
        "block_tokens",
        "context_bytes",
        "id",
        "inflight",
        "kv_tokens",
        "kv_usage",
        "pending_bytes",
        "prefill_tokens",
        "queued",
        "rates",
        "reported_bytes",
        "running",
    )

    def __init__(
        self, id: int, inflight: int, pending_bytes: int, awaiting: int = 0, context_bytes: int = 0
    ) -> None:
        self.id = id
        self.inflight = inflight
        self.pending_bytes = pending_bytes
        self.awaiting = awaiting
        self.context_bytes = context_bytes
        self.running: int | None = None
        self.queued: int | None = None
        self.kv_usage: float | None = None
        self.kv_tokens: int | None = None
        self.block_tokens: int | None = None
        self.prefill_tokens: int | None = None
        self.reported_bytes = 0
        self.rates: Rates | None = None

    def __repr__(self) -> str:
        return f"EngineLoad({self.id}, {self.inflight}, {self.pending_bytes})"


class Choice:
    """An engine, and the numbers that spoke for it. `cached_bytes + uncached_bytes` is the whole prompt.

    `inflight` and `pending_bytes` are the engine's load before this request; `cost_s` is the policy's own
    figure, 0 where it has none. `propensity` is the chance with which this engine was drawn, given all that
    was known: 1 where nothing was left to chance. `costs` is every engine's figure, where it was asked for;
    `agreeing` names the shadow policies that would have chosen so, where those were asked.

    `below` is how many bytes more the engine could load from its host's memory, and from its stores;
    `credited_bytes` is what of them is in `cached_bytes`, by what loading was seen to save.
    """

    __slots__ = (
        "agreeing",
        "below",
        "cached_bytes",
        "cost_s",
        "costs",
        "credited_bytes",
        "engine",
        "inflight",
        "pending_bytes",
        "propensity",
        "uncached_bytes",
        "why",
    )

    def __init__(
        self,
        engine: int,
        why: str,
        cached_bytes: int,
        uncached_bytes: int,
        inflight: int = 0,
        pending_bytes: int = 0,
        cost_s: float = 0.0,
        propensity: float = 1.0,
        costs: Mapping[int, float] | None = None,
    ) -> None:
        self.engine = engine
        self.why = why
        self.cached_bytes = cached_bytes
        self.uncached_bytes = uncached_bytes
        self.inflight = inflight
        self.pending_bytes = pending_bytes
        self.cost_s = cost_s
        self.propensity = propensity
        self.costs = costs
        self.agreeing: Sequence[str] | None = None
        self.below: tuple[int, int] | None = None
        self.credited_bytes = 0
