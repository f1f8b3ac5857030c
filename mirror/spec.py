"""What the shadow process is told: plain values, built from the config by the gateway."""

from dataclasses import dataclass, field

from mirror.brakes import BrakeSpec
from wire.dialect import dialect
from wire.tls import ClientTls

CONTROL = "control"
TWIN = "control-twin"  # the second engine of the control's configuration, whose answers are the control's own
PRODUCTION = "production"
MOST_TIMES = 8.0  # so often is one conversation sent, at most


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One engine that receives copies.

    `kind` is what the engine speaks (vllm, sglang, ...; "auto" asks for nothing beyond plain OpenAI).
    `mark` says what the engine was launched with: copies wait until it is told to be ready; empty, it is not
    launched by us, and is there.  `model` is the engine's own name for the model, None to send the client's.
    `headers` are the arm's own, its credential included.  `tls` says how an https:// arm is believed, None:
    by the system's authorities.
    """

    name: str
    url: str
    kind: str = "auto"
    model: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ClientTls | None = None
    mark: str = ""

    @property
    def side(self) -> str:
        """Whose its answers are: those of the control's second engine are the control's own."""
        return CONTROL if self.name == TWIN else self.name


@dataclass(frozen=True, slots=True)
class SlotSpec:
    """Arms take turns, each for `seconds`.

    `switch` is the command that makes an arm the one that stands ({arm}, {url}), empty where nothing has to
    be done; within `ready_s` it must serve.
    """

    seconds: float
    switch: tuple[str, ...] = ()
    ready_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """Recorded traffic, in place of live: `files` (or folders of them), and how much of them.

    It is sent `rounds` times to each candidate, `speed` times as fast as recorded; of it the first `requests`
    and those of the first `seconds` of the recording.  `names` are the models' names that stay; any other
    becomes the first of them.
    """

    files: tuple[str, ...]
    rounds: int = 1
    speed: float = 1.0
    requests: int | None = None
    seconds: float | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GoldenItem:
    """A request of known answer: the body's fields (JSON, without a model), and how to check the answer."""

    id: str
    body: bytes = field(repr=False)
    check: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GoldenSpec:
    """After every so many copies one of `items`, each once; `max_tokens` is for those that have none."""

    every: int
    items: tuple[GoldenItem, ...]
    max_tokens: int = 512


@dataclass(frozen=True, slots=True)
class MirrorExperiment:
    """One comparison: the control and the candidates, all given the same copies.

    `models` are the names a request may use for this fleet's model; only these are rewritten to an arm's
    `model` (empty: any name is).  `max_inflight` bounds the copies that wait for an arm; `timeout_s` bounds
    one answer, and `first_byte_s` the wait for its head.  `rate`: how often a conversation is sent
    (below 1 the workers see to it); `auto`: so often that the control is loaded as one engine of production.
    `salt` decides which conversations are sent once more.  Pairs of the first `warm_up_s` seconds are marked.
    `slots`: the arms take turns, and then of each slot; None: they stand side by side.  `replay`: what they
    then get is recorded and not live.  `golden`: requests of known answers among the copies.  `logprobs`: of
    so many alternatives they are asked of every arm, 0: only where clients do.  `scored_rows`: no scoring
    needs more rows of logits.  `twin`: a second engine of the control's configuration, which gets what the
    arms get while the control is held against itself; None: some copies are then sent to all arms twice.
    """

    name: str
    fleet: str | None
    arms: tuple[ArmSpec, ...]
    models: tuple[str, ...] = ()
    max_inflight: int = 64
    timeout_s: float = 600.0
    first_byte_s: float = 300.0
    brakes: BrakeSpec = field(default_factory=BrakeSpec)
    rate: float = 1.0
    auto: bool = False
    salt: bytes = field(default=b"", repr=False)
    warm_up_s: float = 0.0
    slots: SlotSpec | None = None
    replay: ReplaySpec | None = None
    golden: GoldenSpec | None = None
    logprobs: int = 0
    scored_rows: int = 2048
    twin: ArmSpec | None = None

    @property
    def engines(self) -> tuple[ArmSpec, ...]:
        """The arms, and the control's second engine behind them, if there is one."""
        return self.arms if self.twin is None else (*self.arms, self.twin)

    @property
    def most_times(self) -> float:
        """How often a conversation may be sent: once where an arm takes no salt, and would find its
        duplicates cached."""
        return MOST_TIMES if all(dialect(arm.kind).takes_cache_salt for arm in self.arms) else 1.0

    @property
    def longest_s(self) -> float:
        """From a copy's dispatch until its last arm must have answered."""
        if self.slots is None:
            return self.timeout_s
        return 2 * (self.slots.seconds + self.timeout_s) + self.slots.ready_s

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if not names or names[0] != CONTROL:
            raise ValueError(f"experiment {self.name}: the first arm must be {CONTROL!r}, not {names[:1]}")
        if self.twin is not None and (self.twin.name != TWIN or self.slots is not None):
            raise ValueError(f"experiment {self.name}: a second control is {TWIN!r} and does not take turns")
        if len(set(names)) != len(names) or PRODUCTION in names or TWIN in names:
            raise ValueError(
                f"experiment {self.name}: arm names must differ, none {PRODUCTION!r} or {TWIN!r}: {names}"
            )


@dataclass(frozen=True, slots=True)
class ShadowSpec:
    """Everything the shadow process needs to know.

    `copy_bytes` bounds one copy on the lane, `lane_bytes` what waits for the analysis process, `held_bytes`
    the requests and answers in memory, `answer_bytes` one arm's answer, `pair_bytes` one frame to the
    analysis process.  `patience_s` is how long a finished comparison waits for production's own answer,
    `drain_s` how long a stop waits for answers under way.  `anew` names experiments that begin anew: they
    wait for the analysis to say in which epoch.  `tells_ids`: the prompts' token ids that the control says
    are wanted, for routing.  Arms' engines are asked for their metrics every `readings_s` seconds, 0: never.
    """

    run_dir: str
    experiments: tuple[MirrorExperiment, ...]
    copy_bytes: int = 8 << 20
    lane_bytes: int = 64 << 20
    held_bytes: int = 512 << 20
    answer_bytes: int = 16 << 20
    pair_bytes: int = 48 << 20
    patience_s: float = 30.0
    drain_s: float = 10.0
    anew: tuple[str, ...] = ()
    tells_ids: bool = False
    readings_s: float = 0.0
