"""What may the operator write about engines' KV events?  Mostly nothing: engines say where they publish."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from config.strict import Count, Strict, expected

_AT = r"tcp://(\{host\}|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.*-]+):(\d{1,5})"


def _port_of(value: str, host: str) -> bool:
    found = re.fullmatch(_AT, value)
    return found is not None and 0 < int(found[2]) < 1 << 16 and (host != "*" or found[1] != "{host}")


def _publisher(value: str) -> str:
    if not value.startswith("ipc:///") and not (_port_of(value, "") and "*" not in value):
        raise expected("where engines publish, such as tcp://{host}:5557, {host} standing for the engine's")
    return value


def _bound(value: str) -> str:
    if not value.startswith("ipc:///") and not _port_of(value, "*"):
        raise expected("an address to listen on, such as tcp://*:5557 or tcp://10.0.0.2:5557")
    return value


def _port(value: str) -> str:
    if not _port_of(value, "*"):
        raise expected("an address with a port to publish on, such as tcp://*:5560")
    return value


def _off(value: object) -> object:
    return "off" if value is False else value  # so YAML reads the word


Publisher = Annotated[str, AfterValidator(_publisher)]
Bound = Annotated[str, AfterValidator(_bound)]
Port = Annotated[str, AfterValidator(_port)]


class KvEvents(Strict):
    """How the fleet's engines are heard on what their KV caches hold."""

    read: Annotated[Literal["auto", "off"], BeforeValidator(_off)] = Field(
        default="auto", description="auto: whatever its engines publish; off: nothing."
    )
    publish: Publisher | None = Field(
        default=None,
        description="Where its engines publish, such as tcp://{host}:5557; needed where they do not say.",
    )
    replay: Publisher | None = Field(
        default=None, description="Where they replay what they published, such as tcp://{host}:5558."
    )
    ranks: Annotated[Count, Field(ge=1, le=64)] = Field(
        default=1, description="Data-parallel ranks of each engine: the ports from those on, one for each."
    )
    topic: str = Field(default="", description="Only messages whose topic begins so; left out, all.")
    bind: Bound | None = Field(
        default=None,
        description="For engines that publish by connecting: where to, such as tcp://*:5557. They are told"
        " apart by the host in their topic, as in kv@10.0.0.5@llama.",
    )
    drain: bool = Field(
        default=False,
        description="Read TensorRT-LLM's events. Reading takes them away: nobody else may read them there.",
    )
    publish_drained: Port | None = Field(
        default=None,
        description="Where those are published again for others, in vLLM's form: a port for each rank, then"
        " one for each to replay; then the next engine's.",
    )
    most_blocks: Annotated[Count, Field(ge=1024, le=1 << 24)] = Field(
        default=262_144,
        description="Blocks known of one rank, at 250 bytes each; one that claims more is not believed.",
    )
