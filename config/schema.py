"""What the operator may write: every setting with its meaning, unit, bounds and default."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from config import address
from config.admission import Admission, AtATime, ClientKey, WhenFull
from config.arm import CONTROL, TWIN, Control
from config.arm import Arm as Arm
from config.arm import Candidate as Candidate
from config.brakes import Brakes
from config.consistency import complaints, fleet_of
from config.engine import KINDS as KINDS
from config.engine import Discover as Discover
from config.engine import Engine as Engine
from config.engine import ModelName
from config.golden import Golden
from config.health import Health, Part
from config.kv_events import KvEvents
from config.launch import Gpu
from config.launch import Launch as Launch
from config.learn import Learn
from config.limits import Limits
from config.logs import Logs
from config.policy import Policy, Score, Split
from config.policy import checked_name as _name
from config.price import Prices
from config.race import Race
from config.record import Long, Pattern, Record, RedactCommand
from config.sample import Sample
from config.similarity import Similarity
from config.strict import Bytes, Count, Fraction, Milliseconds, Seconds, Strict, expected, number
from config.tls import EngineTls, ListenTls
from config.turns import Replay, Turns


def _experiment_name(value: str) -> str:
    if value.lower() in {"secret", "lock", "recording"}:
        raise expected("a name other than secret, lock and recording, which mean something else")
    return _name(value)


def _listen(value: object) -> str:
    if not isinstance(value, str):
        raise expected(address.LISTEN)
    try:
        return str(address.listen(value))
    except address.BadAddress as error:
        raise expected(str(error)) from None


def _web_origin(value: str) -> str:
    if value != "*" and not re.match(r"[a-z][a-z0-9+.-]*://[a-z0-9.\[\]:_-]+\Z", value):
        raise expected('an origin in small letters, such as https://app.example, or "*"')
    return value


def _header_name(value: str) -> str:
    if not re.match(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", value):
        raise expected("the name of a header")
    return value


def _network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        raise expected("an address or a block of addresses such as 10.0.0.0/8, without host bits") from None


ExperimentName = Annotated[str, AfterValidator(_experiment_name)]
Listen = Annotated[str, BeforeValidator(_listen)]
WebOrigin = Annotated[str, AfterValidator(_web_origin)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
Network = Annotated[str, AfterValidator(_network)]


class Fleet(Strict):
    """The engines that serve one model in production."""

    model: ModelName | None = Field(
        default=None, description="The model's name in requests; left out, the fleet takes every model."
    )
    aliases: tuple[ModelName, ...] = Field(default=(), description="Further names for the same model.")
    loras: tuple[ModelName, ...] = Field(
        default=(), description="LoRA adapters that its engines have loaded."
    )
    engines: tuple[Engine, ...] = Field(
        default=(), description="Its engines: URLs, or mappings with a url. Some, or discover, or both."
    )
    discover: Discover | None = Field(default=None, description="Engines that are looked up.")
    policy: Policy = Field(default=Policy(), description="How an engine is chosen for a request.")
    score: Score = Field(default=Score(), description="Other policies, asked beside it and not obeyed.")
    split: Split = Field(default=Split(), description="How it is split, where engines have roles.")
    kv_events: KvEvents = Field(default=KvEvents(), description="What its engines say they hold.")
    learn: Learn = Field(default=Learn(), description="How it is learned what its prompts are to engines.")
    concurrency: AtATime | None = Field(default=None, description="Requests at a time, over all workers.")
    engine_concurrency: AtATime | None = Field(default=None, description="Requests at a time at each engine.")
    when_full: WhenFull = Field(default=WhenFull(), description="What becomes of those that find no room.")
    tls: EngineTls | None = Field(
        default=None, description="For those of its engines that are https:// and have no tls of their own."
    )
    gpus: tuple[Gpu, ...] = Field(
        default=(), description="GPUs of this machine that are production's: no launched engine gets one."
    )
    default: bool = Field(
        default=False,
        description="Takes requests for models that no fleet names; implied when model is left out.",
    )

    @model_validator(mode="before")
    @classmethod
    def _nameless_is_default(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("model") is None and "default" not in value:
            return {**value, "default": True}
        return value


class Slo(Strict):
    """What counts as a good request; goodput is the rate of requests that meet every bound given."""

    ttft_ms: Milliseconds | None = Field(
        default=None, description="Time to the first token, at most this many ms."
    )
    tpot_ms: Milliseconds | None = Field(
        default=None, description="Time per output token after the first, at most this many ms."
    )


class Experiment(Strict):
    """Candidates tried against a control on copies of a fleet's traffic."""

    name: ExperimentName = Field(
        description="Its name in the API, in reports and as a folder below state_dir."
    )
    fleet: ModelName | None = Field(
        default=None,
        description="The model of the fleet it copies; left out, the only fleet or the default one.",
    )
    sample: Sample = Field(default=Sample(), description="Which traffic is copied.")
    control: Control = Field(description="A spare engine configured exactly as production is.")
    candidates: tuple[Candidate, ...] = Field(min_length=1, description="The configurations that are tried.")
    alpha: Annotated[Fraction, Field(le=0.5)] = Field(
        default=0.05,
        description="How often all its verdicts together may be false, however often they are looked at.",
    )
    margin: Fraction = Field(default=0.03, description="Differences within this share count as EQUIVALENT.")
    window_s: Seconds = Field(
        default=2.0, description="Seconds of pairs whose mean is one statistical unit, at least."
    )
    calibration_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=86_400, allow_inf_nan=False)] = (
        Field(default=20.0, description="Seconds of control against itself before the trial, at least.")
    )
    calibration_pairs: Annotated[Count, Field(ge=2, le=1_000_000)] = Field(
        default=100, description="Pairs of control against itself before the trial, at least."
    )
    slo: Slo = Field(default=Slo(), description="What counts as a good request.")
    warm_up_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=10.0,
        description="Seconds of copies, at the start, after a pause and of each slot, whose pairs are kept"
        " and not judged.",
    )
    max_inflight: Annotated[Count, Field(ge=1, le=65_536)] = Field(
        default=64, description="Copies at one arm at a time; what comes above is dropped and counted."
    )
    timeout_s: Seconds = Field(default=600.0, description="A copy's answer may take this many seconds.")
    mode: Literal["live", "switchback", "replay"] = Field(
        default="live",
        description="live: all arms at once; switchback: one at a time, as turns says, for one spare engine;"
        " replay: likewise, with recorded traffic.",
    )
    forced_pairs: Annotated[Count, Field(ge=0, le=1_000_000)] = Field(
        default=0,
        description="After the calibration, so many pairs whose tokens the control dictates to all arms,"
        " where engines can (vLLM with --enable-trace-replay). Only with mode: live.",
    )
    scored_pairs: Annotated[Count, Field(ge=0, le=1_000_000)] = Field(
        default=0,
        description="After that, so many pairs in which all arms say how likely they find the control's"
        " tokens, where engines can (vLLM, SGLang): how far distributions are apart. Only with mode: live.",
    )
    scored_rows: Annotated[Count, Field(ge=2, le=4096)] = Field(
        default=2048,
        description="No scoring needs more rows of logits than this, each as wide as the vocabulary: vLLM"
        " holds one for every token of prompt and answer, SGLang for those of the answer.",
    )
    turns: Turns = Field(default=Turns(), description="With mode: switchback or replay, how arms take turns.")
    replay: Replay | None = Field(default=None, description="With mode: replay, what is sent to the arms.")
    paused: bool = Field(
        default=False,
        description="Whether nothing is copied for now; at a reload it acts at once and nothing begins anew.",
    )
    brakes: Brakes = Field(default=Brakes(), description="When it pauses itself.")
    logprobs: Annotated[Count, Field(ge=0, le=20)] = Field(
        default=0,
        description="Ask every arm for the logprobs of its tokens, and of so many likeliest ones, so that"
        " distributions are compared; it costs all arms alike.",
    )
    text_bytes: Bytes | None = Field(
        default=None,
        description="Keep the text of the last answers, so much of it, beside the experiment's log, for"
        " `shadowlane diff`; left out, no text is kept, and what was is deleted.",
    )
    text_keep_s: Long = Field(
        default=7 * 86_400.0, description="No text of text_bytes is kept for longer; its measures stay."
    )
    redact: tuple[Pattern, ...] = Field(
        default=(), description="Regular expressions; what they match in such text is replaced by [redacted]."
    )
    redact_command: RedactCommand = Field(
        default=(), description="A command that gets such text after that, as record.redact_command does."
    )
    tokenizer: Path | None = Field(
        default=None,
        description="The model's tokenizer.json, by which tokens are counted where engines do not say how"
        " many; it needs the library tokenizers.",
    )
    race: Race | None = Field(
        default=None,
        description="When candidates leave before the end and get no more copies; left out, all stay.",
    )
    golden: Golden | None = Field(
        default=None, description="Requests of known answers among the copies; left out, there are none."
    )
    similarity: Similarity | None = Field(
        default=None,
        description="Who is asked how alike answers are in meaning; left out, that is not compared.",
    )

    @property
    def arms(self) -> tuple[tuple[str, tuple[str | int, ...], Arm], ...]:
        """Every engine that gets copies: its name, its place in the experiment, and what is written of it."""
        twin = self.control.twin
        return (
            (CONTROL, ("control",), self.control),
            *(() if twin is None else ((TWIN, ("control", "twin"), twin),)),
            *((one.name, ("candidates", i), one) for i, one in enumerate(self.candidates)),
        )


class Mirror(Strict):
    """What copying may take; above it copies are dropped and counted, and production goes on."""

    lane_bytes: Bytes = Field(default=64 << 20, description="Copies that wait in one worker, together.")
    copy_bytes: Bytes = Field(default=8 << 20, description="A request or answer above this is not copied.")
    readings_s: Annotated[Seconds, Field(ge=0.1)] = Field(
        default=1.0, description="Arms' GPUs, and their engines' metrics, are read every so many seconds."
    )


class Log(Strict):
    """What the processes write to standard error.  Prompts, answers and keys are never in it."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least that is told."
    )
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="One JSON object a line, or text; auto writes text to a terminal."
    )
    access: Part = Field(
        default=0.0,
        description="The share of requests of which a line is written when they are over: instants, counts,"
        " the engine and why. Those that failed always are; at 0 at most some a second.",
    )


class Cors(Strict):
    """Which web pages may ask. Left out, what engines say about it is passed on."""

    allow_origins: tuple[WebOrigin, ...] = Field(
        min_length=1, description='Origins of pages that may ask, such as https://app.example; "*" for all.'
    )
    allow_headers: tuple[HeaderName, ...] = Field(
        default=("*",), description='Request headers that pages may set; "*" for whichever is asked for.'
    )
    expose_headers: tuple[HeaderName, ...] = Field(
        default=("x-request-id", "retry-after"), description="Answer headers that pages may read."
    )
    allow_credentials: bool = Field(
        default=False, description='Whether cookies may go with it; not together with the origin "*".'
    )
    max_age_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0, description="A browser may keep the answer to a preflight this long."
    )

    @model_validator(mode="after")
    def _not_everybody_with_cookies(self) -> "Cors":
        if self.allow_credentials and "*" in self.allow_origins:
            raise expected('origins by name where allow_credentials is true: browsers refuse "*" there')
        return self


class Config(Strict):
    """Everything the gateway is told, checked."""

    listen: Listen = Field(default="127.0.0.1:8080", description="HOST:PORT that serves clients.")
    tls: ListenTls | None = Field(
        default=None, description="TLS for clients; left out, they speak plain HTTP."
    )
    admin: Listen = Field(default="127.0.0.1:8090", description="HOST:PORT of dashboard, API and /metrics.")
    workers: Annotated[Count, Field(ge=1, le=256)] = Field(
        default=1, description="Processes that serve clients."
    )
    trusted_proxies: tuple[Network, ...] = Field(
        default=(),
        description="Addresses and blocks whose X-Forwarded-*, Forwarded and internal headers are passed on; "
        "from everybody else they are dropped.",
    )
    session_headers: tuple[HeaderName, ...] = Field(
        default=("x-session-id", "x-session-affinity", "x-dynamo-session-id", "x-smg-routing-key"),
        description="Request headers by which clients name a session; so do the fields prompt_cache_key and "
        "session_id. Requests of one go to one engine as far as the policy holds to it.",
    )
    cors: Cors | None = Field(default=None, description="Which web pages may ask.")
    fleets: tuple[Fleet, ...] = Field(min_length=1, description="The fleets, one for each model.")
    experiments: tuple[Experiment, ...] = Field(default=(), description="The experiments.")
    limits: Limits = Field(default=Limits(), description="What one request may take.")
    keys: tuple[ClientKey, ...] = Field(default=(), description="Who may ask; without any, everybody may.")
    keys_file: Path | None = Field(
        default=None, description="A file with more keys, `keys: [...]` as here; read again at a reload."
    )
    admission: Admission = Field(default=Admission(), description="How much may be asked at a time.")
    health: Health = Field(default=Health(), description="How engines are probed, and when one is left out.")
    mirror: Mirror = Field(default=Mirror(), description="What copying may take.")
    record: Record = Field(default=Record(), description="Traffic that is written to files.")
    logs: Logs = Field(default=Logs(), description="How much of the experiments' logs is kept.")
    prices: Prices | None = Field(
        default=None,
        description="What GPUs and arms cost, for the dashboard; with them it says what a token costs.",
    )
    log: Log = Field(default=Log(), description="What the processes write to standard error.")
    reload: Literal["asked", "watched"] = Field(
        default="asked",
        description="When this is read again: on SIGHUP and POST /api/reload; or also when its file changes.",
    )
    state_dir: Path = Field(
        default=Path("shadowlane-state"),
        description="The folder of the experiments' logs, made where missing.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "Config":
        if found := complaints(self):
            raise PydanticCustomError(
                "complaints", "settings that contradict each other", {"complaints": found}
            )
        return self

    @property
    def listen_address(self) -> address.Address:
        """`listen`, taken apart."""
        return address.listen(self.listen)

    @property
    def admin_address(self) -> address.Address:
        """`admin`, taken apart."""
        return address.listen(self.admin)

    def fleet_of(self, experiment: Experiment) -> Fleet:
        """The fleet whose traffic an experiment copies."""
        fleet = fleet_of(self, experiment)
        if fleet is None:
            raise LookupError(f"experiment {experiment.name} has no fleet")
        return fleet
