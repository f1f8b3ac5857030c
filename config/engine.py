"""What the operator may write of a fleet's engines: those listed, and those that are looked up."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, model_validator

from config import address
from config.admission import AtATime
from config.discover import DnsSource, KubernetesSource, Port
from config.strict import Strict, expected, words
from config.tls import EngineTls

KINDS = Literal["auto", "vllm", "sglang", "llamacpp", "tgi", "trtllm", "dynamo", "openai"]
Role = Literal["prefill", "decode", "both"]


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


ModelName = Annotated[str, AfterValidator(partial(words, what="a model's name"))]
Url = Annotated[str, AfterValidator(_engine_url)]
Key = Annotated[SecretStr, AfterValidator(_key)]


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
    role: Role = Field(
        default="both", description="Whether it computes prompts, continues them, or both; docs/routing.md."
    )
    bootstrap_port: Port = Field(
        default=8998, description="Where SGLang's decode engines meet one that prefills."
    )
    concurrency: AtATime | None = Field(
        default=None, description="Requests at a time, over all workers; else the fleet's engine_concurrency."
    )
    tls: EngineTls | None = Field(
        default=None, description="For https://: whom to trust and what to show; else the fleet's."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_url(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value


class Discover(Strict):
    """Engines that are looked up while the gateway runs, in one of three ways, and what they share."""

    dns: DnsSource | None = Field(default=None, description="By a name's addresses or SRV records.")
    file: Path | None = Field(
        default=None,
        description="By a file, JSON or YAML, that lists URLs; it is read again when it has changed.",
    )
    kubernetes: KubernetesSource | None = Field(
        default=None, description="By the EndpointSlices of a Service."
    )
    kind: KINDS = Field(default="auto", description="What each engine is.")
    api_key: Key | None = Field(default=None, description="Sent to each engine in place of the client's.")
    model: ModelName | None = Field(
        default=None, description="The engines' own name for the model, where that differs."
    )
    allow_paths: tuple[Annotated[str, AfterValidator(_path)], ...] = Field(
        default=(), description="Administrative paths that clients may reach on them."
    )
    role: Role = Field(default="both", description="What they do, as with engines that are listed.")
    bootstrap_port: Port = Field(default=8998, description="Of each, as with engines that are listed.")
