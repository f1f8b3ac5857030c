"""What the operator may write of an engine that Shadowlane starts itself, and of the GPUs it runs on."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.strict import Count, Seconds, Strict, expected, number
from config.words import command, words

PLACEHOLDERS = ("port", "host", "gpus", "name", "model")
_PLACED = re.compile(r"\{port\}")
_OURS = frozenset({"CUDA_VISIBLE_DEVICES"})


def _gpu(value: object) -> object:
    """A GPU as NVML names it: its number on this machine, or its UUID."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not re.match(r"(\d{1,4}|GPU-[0-9A-Za-z-]+)\Z", text):
        raise expected("a GPU's number on this machine, or its UUID such as GPU-5fd4f087-…")
    return text


def _command(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0]:
        raise expected("a command: a text that is split as a shell splits it, or a list of words")
    return command(value)


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*\Z", name) or "\0" in text:
            raise expected("names of variables, each with a text")
        if name in _OURS:
            raise expected(f"no {name}: it is set by gpus")
    return value


def _health(value: str) -> str:
    if not re.match(r"/[!-~]*\Z", value):
        raise expected("a path such as /health")
    return value


def _gpus(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, (int, str)) and not str(value).isdigit()):
        raise expected("how many GPUs, or a list of them")
    if isinstance(value, (int, str)) and not 0 <= int(value) <= 64:
        raise expected("at most 64 GPUs")
    return int(value) if isinstance(value, str) else value


Gpu = Annotated[str, BeforeValidator(_gpu)]
# A number of free ones, or these.
Gpus = Annotated[int | tuple[Gpu, ...], BeforeValidator(_gpus)]
EnvText = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value)]


class Launch(Strict):
    """An engine that is started for an experiment, and ended with it. A text stands for its command alone."""

    command: Annotated[tuple[str, ...], BeforeValidator(words), AfterValidator(_command)] = Field(
        description="What starts it, with {port}, {host}, {gpus} (how many), {name} and {model} filled in; no"
        " shell reads it."
    )
    port: Annotated[Count, Field(ge=1, le=65_535)] | None = Field(
        default=None, description="Where it listens on 127.0.0.1; left out, a free port goes into {port}."
    )
    env: Annotated[dict[str, EnvText], AfterValidator(_environment)] = Field(
        default_factory=dict, description="Variables beside those the gateway has; the same are filled in."
    )
    folder: Path | None = Field(default=None, description="Where it runs; left out, where the gateway does.")
    health: Annotated[str, AfterValidator(_health)] | None = Field(
        default=None, description="What answers 200 once it serves; left out, /health or else /v1/models."
    )
    ready_s: Seconds = Field(
        default=1800.0,
        description="It must serve this soon after its start, or is ended and counted as dead.",
    )
    warm_up: Annotated[Count, Field(ge=0, le=10_000)] = Field(
        default=8, description="Requests it is asked before the first copy."
    )
    restarts: Annotated[Count, Field(ge=0, le=1000)] = Field(
        default=5, description="After so many deaths in a row without ten good minutes it is given up."
    )
    stop_s: Annotated[float, BeforeValidator(number), Field(ge=0, le=600, allow_inf_nan=False)] = Field(
        default=15.0, description="From SIGTERM to SIGKILL, for it and all its children."
    )

    @model_validator(mode="before")
    @classmethod
    def _command_alone(cls, value: Any) -> Any:
        return {"command": value} if isinstance(value, (str, list, tuple)) else value

    @property
    def names_port(self) -> bool:
        """Whether the port it is given reaches it."""
        return any(map(_PLACED.search, (*self.command, *self.env.values())))


def gpu_names(value: object) -> tuple[str, ...]:
    """The GPUs that are named one by one; none where a number of free ones is wanted."""
    return value if isinstance(value, tuple) else ()
