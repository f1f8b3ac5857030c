"""What the analysis is told: plain values, built from the config by `gateway.processes.compose`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.cost.prices import Prices


@dataclass(frozen=True, slots=True)
class RaceSpec:
    """When candidates leave an experiment before its end, and get no more copies.

    `beaten`: once another is surely better by more than the margin.  `first_rung`: after so many windows only
    the better half stays, after three times as many the better quarter, and so on; 0: never.  `weights`: how
    much which latency counts; empty: what `rank` goes by.  `accept_outputs`: that one answers otherwise is no
    fault of it.
    """

    beaten: bool = True
    first_rung: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    accept_outputs: bool = False


@dataclass(frozen=True, slots=True)
class ExperimentSpec:
    """One comparison of candidates against a control, and how sure its verdicts must be.

    `alpha` is the chance of any false verdict on a metric over all candidates and all looks. `margin` is the
    smallest ratio that matters (0.03: less than about 3 % either way counts as equal). `window_s` is the
    shortest window; the calibration may ask for a longer one. Calibration lasts at least `calibration_s`
    seconds and `calibration_pairs` pairs. `mode`: live, where arms stand side by side; else they take turns.
    After the calibration come `forced_pairs` pairs whose tokens the control dictates, if engines can,
    and `scored_pairs` whose tokens all arms score. `tokenizer` is the file by which tokens are counted where
    engines do not say how many there are (empty: there is none).
    `engines` are the arms' addresses and models, the control's first: other ones are another experiment, also
    after a restart; so is other `traffic`, where it is recorded, and another `twin`, the second engine that
    the calibration compares the control with (empty: there is none), and another `similarity`, the model of
    embeddings by which answers are compared (empty: none). `golden`: whether requests of known answers are
    asked, so that nothing wins before they say something. The SLOs are upper bounds in ms. `race`: when
    candidates leave; None: never.
    """

    name: str
    fleet: str
    candidates: tuple[str, ...]
    alpha: float = 0.05
    margin: float = 0.03
    window_s: float = 2.0
    calibration_s: float = 20.0
    calibration_pairs: int = 100
    slo_ttft_ms: float | None = None
    slo_tpot_ms: float | None = None
    mode: str = "live"
    forced_pairs: int = 0
    scored_pairs: int = 0
    tokenizer: str = ""
    engines: tuple[str, ...] = ()
    traffic: str = ""
    twin: str = ""
    similarity: str = ""
    golden: bool = False
    race: RaceSpec | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How much of each experiment's logs is kept: of the one in use, and of those put aside."""

    log_bytes: int = 4 << 30
    old_bytes: int = 4 << 30
    old_days: float = 90.0


@dataclass(frozen=True, slots=True)
class TextSpec:
    """Of what arms said the last `limit_bytes` are kept (0: none), each text for `keep_s` at most.

    `redact` are patterns whose matches are replaced before, `redact_command` what texts then go through.
    """

    limit_bytes: int = 0
    keep_s: float = 7 * 86_400.0
    redact: tuple[str, ...] = ()
    redact_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """Who tells how alike an experiment's answers are in meaning: a server with OpenAI's `/v1/embeddings`.

    `url` is what that path comes after.  Of each answer the first `chars` characters are sent; a comparison
    that takes more than `rows` texts is left out.
    """

    experiment: str
    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    rows: int = 64
    chars: int = 8192
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class AnalysisSpec:
    """Everything the analysis process needs to know.

    It listens for observations on `<run_dir>/observations.sock`, keeps its logs under `state_dir`, and serves
    the admin API on `admin_host:admin_port` (0: any free port; the bound address goes to
    `<run_dir>/admin.addr`).  `anew` names experiments whose engines have changed while it ran: their logs are
    put aside although the settings known here are the same.  `texts`: how what arms said
    is kept word for word, by experiment; of others nothing is.  `prices` are what GPUs and arms cost.
    `embedders`: who is asked of answers' meaning.
    """

    admin_host: str
    admin_port: int
    run_dir: str
    state_dir: str
    experiments: tuple[ExperimentSpec, ...]
    version: str
    anew: tuple[str, ...] = ()
    retention: Retention = Retention()
    texts: dict[str, TextSpec] = field(default_factory=dict)
    prices: Prices | None = None
    embedders: tuple[EmbedderSpec, ...] = ()
