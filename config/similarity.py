"""What the operator may write of a server that tells how alike answers are in meaning."""

from typing import Annotated

from pydantic import AfterValidator, Field

from config.engine import Key, ModelName, Url
from config.strict import Count, Seconds, Strict, expected


def _over_tcp(value: str) -> str:
    if value.startswith("unix:"):
        raise expected("a URL of http:// or https://")
    return value


class Similarity(Strict):
    """A server with OpenAI's /v1/embeddings that the analysis asks about answers. It gets their text."""

    url: Annotated[Url, AfterValidator(_over_tcp)] = Field(
        description="Where it is, without /v1: http:// or https://; no engine of production."
    )
    model: ModelName = Field(description="The model it is asked for; another one begins a new epoch.")
    api_key: Key | None = Field(
        default=None, description="Sent to it as its bearer token; write ${VARIABLE}."
    )
    rows: Annotated[Count, Field(ge=2, le=2048)] = Field(
        default=64, description="A pair that takes more texts than this is left out, and counted."
    )
    chars: Annotated[Count, Field(ge=16, le=1_000_000)] = Field(
        default=8192,
        description="Of each answer so many characters from its beginning are compared, at most.",
    )
    timeout_s: Seconds = Field(default=10.0, description="It must answer within so many seconds.")
