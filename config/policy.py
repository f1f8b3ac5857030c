"""What the operator may write of how an engine is chosen, and of fleets that split prefill from decode."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from config.strict import Count, Strict, expected, number

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


def checked_name(value: str) -> str:
    if not NAME.match(value):
        raise expected("a name of at most 64 letters, digits, dots, dashes and underscores")
    return value


Name = Annotated[str, AfterValidator(checked_name)]


class Policy(Strict):
    """How an engine is chosen for a request: a file of routing/policies, and its settings."""

    name: Name = Field(default="prefix_cost", description="The policy; docs/policies.md describes each.")
    params: dict[str, Any] = Field(default_factory=dict, description="The policy's own settings.")


class Score(Strict):
    """Policies that are asked about some of a fleet's requests, and not obeyed: what they would have done."""

    policies: tuple[Policy, ...] = Field(default=(), description="The policies, each by its own name.")
    share: Annotated[float, BeforeValidator(number), Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.05, description="The share of requests about which they are asked."
    )

    @model_validator(mode="after")
    def _each_once(self) -> "Score":
        names = [one.name for one in self.policies]
        if len(set(names)) < len(names):
            raise expected("policies of different names")
        return self


class Split(Strict):
    """How a request is split where engines have roles; docs/routing.md tells both ways."""

    style: Literal["auto", "vllm", "sglang"] = Field(
        default="auto", description="How engines hand over a prompt's KV; auto goes by what they are."
    )
    min_bytes: Annotated[Count, Field(ge=0)] = Field(
        default=0, description="Prompts below this go whole to an engine that decodes; 0 splits all."
    )
    decode: Policy = Field(
        default=Policy(name="least_load"), description="How the engine that decodes is chosen."
    )
