"""Which Prometheus series a worker exports: every name, every label, every bucket.

Labels come from closed sets given at start (fleets, engines, experiments) or written in the code (outcomes,
reasons, kinds); anything else is counted under "other", so that no client can invent a series.

`prometheus_client` decides at import whether it writes to PROMETHEUS_MULTIPROC_DIR, so it is imported when
the first `WorkerMetrics` is made and not before.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gateway.admission.keys import ANONYMOUS
from gateway.admission.ledger import CLASS_NAMES, DEGRADED
from gateway.admission.refusal import REASONS as LIMITED
from gateway.bridge.told import BOUNDS, OF_SCHOOL, SKIPPED
from gateway.durations import E2E_S, OVERHEAD_S, TTFT_S, Durations
from gateway.fleets.outlier import Reason, State
from gateway.outcome import Outcome
from routing.events.board import State as Trust
from routing.events.decode import TIERS
from routing.events.lower import REASONS as OF_LOWER
from wire.exchange import Ending

OTHER = "other"
NONE = "none"  # the fleet or engine of a request that came to none
OUTCOMES = tuple(outcome.value for outcome in Outcome)
_FAILURES = tuple(ending.value for ending in Ending if ending is not Ending.COMPLETE)
KINDS = (*_FAILURES, "connect", "status_429", "status_5xx", "error_event")
REASONS = (
    *OUTCOMES, *(failure for failure in KINDS if failure not in OUTCOMES),
    *(reason.value for reason in Reason if reason.value not in KINDS),
    "before_first_token", "busy", "draining", "full", "head_too_large", "headers", "idle_race", "inflight",
    "rate",
    "body_timeout", "connections", "connections_per_ip", "head_timeout", "tls_handshake", "uploads",
    "bad_files", "renewed", *LIMITED,
    "too_large", "memory", "no_answer", "disk", "same_id",
    "both", "dropped", "no_kv", "no_pair", "sequences", "short", "unread",
    "block_size", "conflict", "frames", "group", "load", "malformed", "remote", "tier", "tokenless",
    *(f"tier_{why}" for why in OF_LOWER),
    *SKIPPED, "failed", "link_down", "link_full",
    "too_many_blocks", "topic", "undecodable", "unknown_block", "unknown_parent", "unknown_tag",
    "lane_down", "lane_full", "lane_lost", "paused",
    "method", "not_found", "path", "unknown_model", "unreadable", "upgrade",
)  # fmt: skip

_OF_EVENTS = (
    "batches", "stored", "removed", "cleared",
    "gaps", "missed", "duplicates", "restarts", "wipes", "replays", "replays_failed", "held_back_dropped",
    "failed",
)  # fmt: skip

_SHADOW = ("fleet", "policy")
# name -> (help, labels); exported as shadowlane_<name>_total
COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "requests": ("Requests relayed, by how they ended.", ("fleet", "engine", "outcome")),
    "refused": ("Requests answered by the gateway itself, by reason.", ("reason",)),
    "retries": ("Attempts on another engine before anything was sent to the client.", ("reason",)),
    "split_legs": ("Legs of requests over two engines, by how they ended.", ("fleet", "leg", "reason")),
    "split_whole": ("Requests not split although engines have roles, by why.", ("fleet", "reason")),
    "upstream_errors": ("Failures seen at an engine, by kind.", ("engine", "kind")),
    "left_out": ("Times an engine was left out, by reason.", ("engine", "reason")),
    "tls_reloads": ("Changed TLS files, by what became of them.", ("reason",)),
    "step_failed": ("Failures in what a worker looks after once a second; its log says which.", ()),
    "retries_refused": ("Retries that the budget did not allow.", ()),
    "access_log_dropped": ("Lines of requests that were not written, by reason.", ("reason",)),
    "client_gone": ("Clients that left before their answer ended.", ()),
    "chunks": ("Reads from engines passed on to clients.", ()),
    "prompt_tokens": ("Prompt tokens, where the engine told.", ("fleet",)),
    "cached_tokens": ("Prompt tokens found in an engine's cache, where the engine told.", ("fleet",)),
    "completion_tokens": ("Completion tokens, where the engine told.", ("fleet",)),
    "choices_missed": ("Times other workers chose more than one that was busy could read.", ()),
    "shadow_requests": ("Requests about which a policy was asked that is not obeyed.", _SHADOW),
    "shadow_agreed": ("Times it named the engine that was chosen.", _SHADOW),
    "shadow_prompt_bytes": ("Prompt bytes of those requests.", _SHADOW),
    "shadow_cached_bytes": ("Of them, believed to be held by the engine it named.", _SHADOW),
    "shadow_inflight": ("Requests in flight at the engines it named, in sum.", _SHADOW),
    "shadow_weight": ("Thousandths: weights of the outcomes of those it agreed about.", _SHADOW),
    "shadow_weight_squared": ("Thousandths: those weights' squares.", _SHADOW),
    "shadow_first_token_ms": ("Times to the first token, weighed.", _SHADOW),
    "shadow_prompt_tokens": ("Prompt tokens as engines told, weighed.", _SHADOW),
    "shadow_cached_tokens": ("Of them, found in an engine's cache, weighed.", _SHADOW),
    "shadow_failed": ("Times a policy that is not obeyed raised an error.", ("fleet",)),
    "lane_dropped": ("Sampled requests not handed to the shadow process.", ("experiment", "reason")),
    "mirrored": ("Sampled requests handed to the shadow process.", ("experiment",)),
    "limited": (
        "Requests refused by a limit, by whose, of which class and which.",
        ("key", "class", "reason"),
    ),
    "degraded": ("Requests for a fleet out of room, by what became of them.", ("fleet", "how")),
    "key_requests": ("Requests of a key that were served.", ("key",)),
    "key_prompt_tokens": ("Prompt tokens of a key, where the engine told.", ("key",)),
    "key_cached_tokens": ("Those of them found in an engine's cache, where it told.", ("key",)),
    "key_output_tokens": ("Output tokens of a key, where the engine told.", ("key",)),
    "kv_events": ("What engines said of their KV blocks, by kind.", ("engine", "rank", "what")),
    "kv_ignored": ("What of it said nothing here, by reason.", ("engine", "rank", "reason")),
    "kv_troubles": ("What went wrong with a publisher of it, by kind.", ("engine", "rank", "what")),
    "learning": ("Prompts whose token ids were to be learned, by what became of it.", ("what",)),
    "bridge_skipped": ("Prompts that were not worth learning, by why.", ("fleet", "reason")),
    "bridge_dropped": ("What was not told to the process that learns, by why.", ("reason",)),
    "learned_prompts": ("Prompts learned from their token ids, by this worker.", ("fleet",)),
    "learned_anew": ("Times all was forgotten, since the chat template wrote something else.", ("fleet",)),
    "learned_mismatched": ("Learned prompts of another length than their engine says.", ("fleet",)),
    "foretold_error": (
        "Answers by how many tokens more were foretold as cached than the engine says, up to a bound.",
        ("fleet", "bound"),
    ),
    "foretold_tokens": ("Tokens foretold as cached, where the engine says how many were.", ("fleet",)),
    "found_tokens": ("Those of them that were.", ("fleet",)),
    "foretold_below_tokens": (
        "Tokens foretold in hosts' memory or stores, where the engine says how many were cached.",
        ("fleet", "tier"),
    ),
    "found_below_tokens": ("Those of them that were.", ("fleet",)),
    "foretold_unknown": ("Answers to prompts of which nothing was learned.", ("fleet",)),
    "recorded": ("Requests written to the recording.", ()),
    "recorded_bytes": ("Bytes of recordings written.", ()),
    "recording_dropped": ("Requests that are missing in the recording, by reason.", ("reason",)),
    "recording_text_removed": ("Recorded requests whose text is not there, by reason.", ("reason",)),
    "recording_files_removed": ("Files of recordings removed for their age or size.", ()),
    "lock_missed": ("Times the limits' lock was not had in time, and done without.", ()),
}
# name -> (help, labels, how the workers' values become one)
GAUGES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "inflight": ("Requests sent to an engine and not ended.", ("engine",), "livesum"),
    "engine_up": ("1 while somebody answers at the engine's address.", ("engine",), "livemostrecent"),
    "recording_open": ("Requests whose rows of the recording wait for their answers.", (), "livesum"),
    "waiting": ("Requests that wait for a fleet's room.", ("fleet", "class"), "livesum"),
    "key_inflight": ("Requests of a key that run or wait.", ("key",), "livesum"),
    "learned_links": ("Links of prompts' text of which blocks are known.", ("fleet",), "livemax"),
    "foretold_trusted": (
        "1 while what is foretold is believed; else what was sent is gone by.",
        ("fleet",),
        "livemin",
    ),
    "kv_state": (
        "1 for how far a publisher of KV events is believed.",
        ("engine", "rank", "trust"),
        "livemostrecent",
    ),
    "kv_blocks": ("KV blocks that a publisher is known to hold.", ("engine", "rank"), "livemostrecent"),
    "kv_blocks_below": (
        "KV blocks of a publisher that can be found in a lower tier or above.",
        ("engine", "rank", "tier"),
        "livemostrecent",
    ),
    "tier_credit": (
        "What loading a prompt's token from there saves of computing it, as was last learned.",
        ("engine", "tier"),
        "livemostrecent",
    ),
    "tier_answers": (
        "The engine's own last answers that showed it.",
        ("engine", "tier"),
        "livemostrecent",
    ),
    "kv_lag_seconds": ("How old its last message was when it came.", ("engine", "rank"), "livemostrecent"),
    "engine_state": ("1 for what a worker thinks of an engine now.", ("engine", "state"), "livemostrecent"),
}
# name -> (help, labels, bucket bounds in seconds); exported as shadowlane_<name>_seconds
HISTOGRAMS: dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "ttft": ("From the request's arrival to the first token's.", ("fleet",), TTFT_S),
    "e2e": ("From the request's arrival to the end of its answer.", ("fleet",), E2E_S),
    "overhead": (
        "From the request's arrival to its dispatch, without a wait for its turn: the gateway's own time.",
        ("fleet",),
        OVERHEAD_S,
    ),
    "queue_wait": ("From a request's arrival in the queue to its turn.", ("fleet", "class"), E2E_S),
}


def write_as(process: str) -> None:
    """Name this process's files in the multiprocess directory, before any `WorkerMetrics` is made.

    By default the files carry the pid: each restart would leave another set, for ever.  Under a stable name
    ("worker-0", no underscore) a restarted worker reopens the files of the dead one and its counters go on.
    """
    if "_" in process:
        raise ValueError(f"underscores part the names of the multiprocess files: {process!r}")
    from prometheus_client import values

    if getattr(values.ValueClass, "_multiprocess", False):
        values.ValueClass = values.MultiProcessValue(lambda: process)  # type: ignore[no-untyped-call]


def forget_live_gauges(metrics_dir: Path, process: str) -> None:
    """Take what a dead process last gauged out of the sums; its counters stay."""
    for file in metrics_dir.glob(f"gauge_live*_{process}.db"):
        file.unlink(missing_ok=True)


class WorkerMetrics:
    """One worker's series.

    The hot path touches plain dicts and lists only; once a second the worker calls::

        metrics.flush(
            counts={("requests", "llama", "http://10.0.0.5:8000", "complete"): 12, ("chunks",): 4711},
            observations={("ttft", "llama"): ttft},
            gauges={("inflight", "http://10.0.0.5:8000"): 3},
        )

    `counts`: (counter name, *label values in the order of `COUNTERS`) -> how many **since the worker
    started** (never decreasing): what was not exported before is added now, so a missed flush loses nothing
    and the same dict can serve the status frame.  `observations`: (histogram name, *labels) -> the
    `Durations` **since the last flush**, counted by that name's bounds; the caller begins new ones.
    `gauges`: (gauge name, *labels) -> value now.  An unknown metric name is a KeyError; an unknown label is
    counted as "other".
    """

    def __init__(
        self,
        *,
        engines: Iterable[str],
        fleets: Iterable[str],
        experiments: Iterable[str] = (),
        keys: Iterable[str] = (),
        policies: Iterable[str] = (),
        outcomes: Iterable[str] = OUTCOMES,
        reasons: Iterable[str] = REASONS,
        kinds: Iterable[str] = KINDS,
    ) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        self._known = {
            "engine": frozenset((*engines, NONE)),
            "fleet": frozenset((*fleets, NONE)),
            "experiment": frozenset(experiments),
            "key": frozenset((*keys, ANONYMOUS, NONE)),
            "policy": frozenset(policies),
            "class": frozenset(CLASS_NAMES),
            "how": frozenset(DEGRADED),
            "leg": frozenset(("prefill", "decode")),
            "outcome": frozenset(outcomes),
            "reason": frozenset(reasons),
            "kind": frozenset(kinds),
            "state": frozenset(state.value for state in State),
            "rank": frozenset(map(str, range(64))),
            "tier": frozenset(TIERS),
            "trust": frozenset(trust.name for trust in Trust),
            "what": frozenset((*_OF_EVENTS, *OF_SCHOOL)),
            "bound": frozenset(BOUNDS),
        }
        self._families: dict[str, tuple[Any, tuple[str, ...]]] = {}
        for name, (text, labels) in COUNTERS.items():
            self._families[name] = Counter(f"shadowlane_{name}", text, labels, registry=self.registry), labels
        for name, (text, labels, mode) in GAUGES.items():
            gauge = Gauge(
                f"shadowlane_{name}",
                text,
                labels,
                registry=self.registry,
                multiprocess_mode=mode,  # type: ignore[arg-type]
            )
            self._families[name] = gauge, labels
        for name, (text, labels, buckets) in HISTOGRAMS.items():
            histogram = Histogram(
                f"shadowlane_{name}_seconds", text, labels, registry=self.registry, buckets=buckets
            )
            self._families[name] = histogram, labels
        self._series: dict[tuple[str, ...], Any] = {}
        self._exported: dict[tuple[str, ...], int] = {}

    def know(
        self,
        *,
        engines: Iterable[str],
        fleets: Iterable[str],
        experiments: Iterable[str],
        keys: Iterable[str] = (),
    ) -> None:
        """More labels, of a new configuration.  The old ones stay known: their last requests may yet end."""
        more = {"engine": engines, "fleet": fleets, "experiment": experiments, "key": keys}
        for label, values in more.items():
            self._known[label] |= frozenset(values)

    def forget_engines(self, engines: Iterable[str]) -> None:
        """These are used no more: they are neither up nor down, and have nothing in flight."""
        for engine in engines:
            self._at(("inflight", engine)).set(0.0)
            self._at(("engine_up", engine)).set(float("nan"))
            for state in State:
                self._at(("engine_state", engine, state.value)).set(float("nan"))

    def flush(
        self,
        counts: Mapping[tuple[str, ...], int],
        observations: Mapping[tuple[str, ...], Durations],
        gauges: Mapping[tuple[str, ...], float],
    ) -> None:
        """Export what happened; see the class."""
        for key, total in counts.items():
            new = total - self._exported.get(key, 0)
            if new > 0:
                self._at(key).inc(new)
                self._exported[key] = total
        for key, durations in observations.items():
            if durations.n:
                _observe(self._at(key), durations)
        for key, value in gauges.items():
            self._at(key).set(value)

    def _at(self, key: tuple[str, ...]) -> Any:
        name, *values = key
        family, labels = self._families[name]
        if len(values) != len(labels):
            raise ValueError(f"{name} has the labels {labels}, not {tuple(values)}")
        closed = tuple(
            value if value in self._known[label] else OTHER
            for label, value in zip(labels, values, strict=True)
        )
        at = (name, *closed)
        if at not in self._series:  # keyed by the closed labels: what clients invent is not remembered
            self._series[at] = family.labels(*closed) if labels else family
        return self._series[at]


def _observe(histogram: Any, durations: Durations) -> None:
    """Add what was counted to the client library's own cells: it has no public bulk form, and `observe` takes
    one at 5 µs each."""
    histogram._sum.inc(durations.total_s)
    for bucket, n in zip(histogram._buckets, durations.counts, strict=True):
        if n:
            bucket.inc(n)
