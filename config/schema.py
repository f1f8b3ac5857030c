"""What the operator may write: every setting with its meaning, unit, bounds and default."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from config import address
from config.consistency import complaints, fleet_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
KINDS = Literal["auto", "vllm", "sglang", "llamacpp", "tgi", "trtllm", "dynamo", "openai"]


def expected(text: str) -> PydanticCustomError:
    """The error of a validator of ours: it says what was expected; the loader adds what was found."""
    return PydanticCustomError("expected", "{expected}", {"expected": text})


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise expected("a number")
    return value


def _share(value: object) -> object:
    if value == "auto":
        return value
    try:
        share = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else 0.0
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise expected("auto or a share above 0 and at most 1")
    return share


def _experiment_name(value: str) -> str:
    if value.lower() in {"secret", "lock"}:
        raise expected("a name other than secret and lock, which are files of state_dir")
    return _name(value)


def _name(value: str) -> str:
    if not NAME.match(value):
        raise expected("a name of at most 64 letters, digits, dots, dashes and underscores")
    return value


def _candidate_name(value: str) -> str:
    if value.lower() in {"production", "control"}:
        raise expected("a name other than production and control")
    return _name(value)


def _words(value: str, what: str) -> str:
    if not value or value != value.strip() or not value.isprintable():
        raise expected(f"{what}, printable and without blanks around it")
    return value


def _path(value: str) -> str:
    if not re.match(r"/[!-~]*\Z", value) or re.search(r"[?#\\]|//|/\.\.?(/|\Z)", value):
        raise expected("an absolute path such as /reset_prefix_cache, without . or .. or a query")
    return value


def _key(value: SecretStr) -> SecretStr:
    if not re.match(r"[!-~]+\Z", value.get_secret_value()):
        raise expected("a key of printable ASCII characters without blanks or line ends")
    return value


def _engine_url(value: str) -> str:
    try:
        return address.engine_url(value)
    except address.BadAddress as error:
        raise expected(str(error)) from None


def _listen(value: object) -> str:
    if not isinstance(value, str):
        raise expected(address.LISTEN)
    try:
        return str(address.listen(value))
    except address.BadAddress as error:
        raise expected(str(error)) from None


Count = Annotated[int, BeforeValidator(_number)]
Seconds = Annotated[float, BeforeValidator(_number), Field(gt=0, le=86_400, allow_inf_nan=False)]
Milliseconds = Annotated[float, BeforeValidator(_number), Field(gt=0, le=3_600_000, allow_inf_nan=False)]
Bytes = Annotated[int, BeforeValidator(_number), Field(ge=1024, le=1 << 40)]
Fraction = Annotated[float, BeforeValidator(_number), Field(gt=0, lt=1, allow_inf_nan=False)]
Share = Annotated[float | Literal["auto"], BeforeValidator(_share)]
Name = Annotated[str, AfterValidator(_name)]
ExperimentName = Annotated[str, AfterValidator(_experiment_name)]
CandidateName = Annotated[str, AfterValidator(_candidate_name)]
ModelName = Annotated[str, AfterValidator(partial(_words, what="a model's name"))]
Url = Annotated[str, AfterValidator(_engine_url)]
Key = Annotated[SecretStr, AfterValidator(_key)]
Listen = Annotated[str, BeforeValidator(_listen)]


class Strict(BaseModel):
    """Frozen, and no key that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)


class Engine(Strict):
    """One running server of a fleet. A plain URL stands for an engine with only its url."""

    url: Url = Field(description="Where it listens: http://, https:// or unix://, without /v1.")
    kind: KINDS = Field(default="auto", description="What it is; auto asks it when the gateway starts.")
    api_key: Key | None = Field(
        default=None,
        description="Sent to it as its bearer token in place of the client's; write ${VARIABLE}.",
    )
    model: ModelName | None = Field(
        default=None, description="Its own name for the model, where that differs."
    )
    allow_paths: tuple[Annotated[str, AfterValidator(_path)], ...] = Field(
        default=(),
        description="Administrative paths that clients may reach on it besides the inference paths.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_url(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value


class Policy(Strict):
    """How an engine is chosen for a request: a file of routing/policies, and its settings."""

    name: Name = Field(default="prefix_cost", description="The policy; docs/policies.md describes each.")
    params: dict[str, Any] = Field(default_factory=dict, description="The policy's own settings.")


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
        min_length=1, description="Its engines: URLs, or mappings with a url."
    )
    policy: Policy = Field(default=Policy(), description="How an engine is chosen for a request.")
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


class Sample(Strict):
    """Which part of a fleet's traffic an experiment copies."""

    rate: Share = Field(
        default="auto",
        description="The share of conversations; auto loads an arm as one production engine is.",
    )
    by: Literal["conversation"] = Field(
        default="conversation", description="What is sampled: conversations are copied whole or not at all."
    )


class Arm(Strict):
    """An engine that gets copies and whose answers no client sees."""

    engine: Url = Field(description="The URL of a spare engine, which serves no production traffic.")
    api_key: Key | None = Field(
        default=None, description="Sent to it as its bearer token; write ${VARIABLE}."
    )
    model: ModelName | None = Field(
        default=None, description="Its own name for the model, where that differs."
    )


class Candidate(Arm):
    """An arm with the configuration that is tried."""

    name: CandidateName = Field(description="Its name in verdicts.")


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
    control: Arm = Field(description="A spare engine configured exactly as production is.")
    candidates: tuple[Candidate, ...] = Field(min_length=1, description="The configurations that are tried.")
    alpha: Annotated[Fraction, Field(le=0.5)] = Field(
        default=0.05,
        description="How often all its verdicts together may be false, however often they are looked at.",
    )
    margin: Fraction = Field(default=0.03, description="Differences within this share count as EQUIVALENT.")
    window_s: Seconds = Field(
        default=2.0, description="Seconds of pairs whose mean is one statistical unit, at least."
    )
    calibration_s: Annotated[float, BeforeValidator(_number), Field(ge=0, le=86_400, allow_inf_nan=False)] = (
        Field(default=20.0, description="Seconds of control against itself before the trial, at least.")
    )
    calibration_pairs: Annotated[Count, Field(ge=2, le=1_000_000)] = Field(
        default=100, description="Pairs of control against itself before the trial, at least."
    )
    slo: Slo = Field(default=Slo(), description="What counts as a good request.")
    max_inflight: Annotated[Count, Field(ge=1, le=65_536)] = Field(
        default=64, description="Copies at one arm at a time; what comes above is dropped and counted."
    )
    timeout_s: Seconds = Field(default=600.0, description="A copy's answer may take this many seconds.")


class Limits(Strict):
    """What one request may take."""

    body_bytes: Bytes = Field(default=128 << 20, description="A larger request body is refused with 413.")
    read_bytes: Bytes = Field(
        default=8 << 20, description="A larger body is relayed without being read for its prefix."
    )
    head_bytes: Bytes = Field(default=65_536, description="A larger request head is refused with 431.")
    connect_timeout_s: Seconds = Field(
        default=5.0, description="An engine must accept a connection within this."
    )
    first_token_timeout_s: Seconds = Field(
        default=600.0, description="An engine must begin to answer within this."
    )
    idle_timeout_s: Seconds = Field(
        default=120.0, description="Silence within an answer or a request ends it."
    )
    drain_s: Seconds = Field(default=30.0, description="Requests in flight may end within this at a stop.")
    retries: Annotated[Count, Field(ge=0, le=16)] = Field(
        default=2, description="Further engines tried when one refuses before its first event."
    )
    hold_head_ms: Annotated[float, BeforeValidator(_number), Field(ge=0, le=60_000, allow_inf_nan=False)] = (
        Field(
            default=250.0,
            description="An answer's head waits this long for the first event, which may be a refusal.",
        )
    )


class Mirror(Strict):
    """What copying may take; above it copies are dropped and counted, and production goes on."""

    lane_bytes: Bytes = Field(default=64 << 20, description="Copies that wait in one worker, together.")
    copy_bytes: Bytes = Field(default=8 << 20, description="A request or answer above this is not copied.")


class Log(Strict):
    """What the processes write to standard error.  Prompts, answers and keys are never in it."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least that is told."
    )
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="One JSON object a line, or text; auto writes text to a terminal."
    )


class Config(Strict):
    """Everything the gateway is told, checked."""

    listen: Listen = Field(default="127.0.0.1:8080", description="HOST:PORT that serves clients.")
    admin: Listen = Field(default="127.0.0.1:8090", description="HOST:PORT of dashboard, API and /metrics.")
    workers: Annotated[Count, Field(ge=1, le=256)] = Field(
        default=1, description="Processes that serve clients."
    )
    fleets: tuple[Fleet, ...] = Field(min_length=1, description="The fleets, one for each model.")
    experiments: tuple[Experiment, ...] = Field(default=(), description="The experiments.")
    limits: Limits = Field(default=Limits(), description="What one request may take.")
    mirror: Mirror = Field(default=Mirror(), description="What copying may take.")
    log: Log = Field(default=Log(), description="What the processes write to standard error.")
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
