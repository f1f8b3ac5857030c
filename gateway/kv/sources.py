"""Where does an engine publish its events?  As it says itself, or as the config says of those that do not."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.spec import EventsSpec

VLLM = "/kv_event_sources"
SGLANG = "/server_info"
PATHS = (VLLM, SGLANG)
PATHS_OF = {"vllm": (VLLM,), "sglang": (SGLANG,)}
"""Where an engine of this kind says it; of others all `PATHS` are asked."""
_MOST_RANKS = 64
_ANYWHERE = ("*", "0.0.0.0", "::", "[::]", "")
_HERE = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Source:
    """One publisher: a data-parallel rank, where it publishes and where it replays (None: it does not).

    `load` is where SGLang tells its load.
    """

    rank: int
    publish: str
    replay: str | None = None
    topic: str = ""
    load: str | None = None


def told(answers: Mapping[str, tuple[int, bytes]], host: str) -> list[Source]:
    """What an engine says of itself in its answers to `PATHS`; empty: nothing, or nothing of use.

    An endpoint on all of its addresses is at `host`.
    """
    for path, read in ((VLLM, _vllm), (SGLANG, _sglang)):
        status, body = answers.get(path, (0, b""))
        if status == 200:
            try:
                found = read(msgspec.json.decode(body), host)
            except (msgspec.DecodeError, ValueError, TypeError, KeyError, AttributeError):
                continue
            if found:
                return found
    return []


def configured(events: EventsSpec, host: str) -> list[Source]:
    """What the config says of engines that say nothing themselves."""
    if events.publish is None:
        return []
    return [
        Source(
            rank,
            _shifted(events.publish.replace("{host}", host), rank),
            replay_of(events, host, rank),
            events.topic.replace("{host}", host),
        )
        for rank in range(events.ranks)
    ]


def replay_of(events: EventsSpec, host: str, rank: int) -> str | None:
    """Where a rank replays, as the config says it."""
    return None if events.replay is None else _shifted(events.replay.replace("{host}", host), rank)


def host_of(url: str) -> str:
    """The host of an engine's URL as ZeroMQ writes it, IPv6 in brackets; of a socket file, this machine."""
    host = urlsplit(url).hostname or "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _vllm(said: Any, host: str) -> list[Source]:
    """An object for each rank, by rank (0.32) or in a list; without ZeroMQ it has no endpoint.

    Ranks that are all told with one endpoint are on the ports from that one on.
    """
    if isinstance(said, dict):
        said = [{"data_parallel_rank": int(rank), **one} for rank, one in said.items() if one]
    found: list[Source] = []
    for one in said[:_MOST_RANKS] if isinstance(said, list) else ():
        rank, publish = one.get("data_parallel_rank") or 0, _reached(one.get("endpoint"), host)
        if publish is not None and type(rank) is int and 0 <= rank < _MOST_RANKS:
            topic = one.get("topic")
            replay = _reached(one.get("replay_endpoint"), host)
            found.append(Source(rank, publish, replay, topic if isinstance(topic, str) else ""))
    if len({one.rank for one in found}) != len(found):
        return []
    if len(found) > 1 and len({one.publish for one in found}) == 1:
        return [
            replace(
                one,
                publish=_shifted(one.publish, one.rank),
                replay=None if one.replay is None else _shifted(one.replay, one.rank),
            )
            for one in found
        ]
    return found


def _sglang(said: Any, host: str) -> list[Source]:
    """`kv_events` in its server_info: base ports of what each rank publishes, replays, tells of its load."""
    events = said.get("kv_events")
    if not isinstance(events, dict) or events.get("publisher") != "zmq":
        return []
    at = str(events.get("endpoint_host") or "*")
    at = host if at in _ANYWHERE else at
    base, ranks = events["endpoint_port_base"], events.get("dp_size") or 1
    replay, load = events.get("replay_endpoint_port_base"), events.get("load_endpoint_port_base")
    topic = events.get("topic") or ""
    return [
        Source(
            rank,
            f"tcp://{at}:{base + rank}",
            None if replay is None else f"tcp://{at}:{replay + rank}",
            topic if isinstance(topic, str) else "",
            None if load is None else f"tcp://{at}:{load + rank}",
        )
        for rank in range(min(ranks, _MOST_RANKS))
    ]


def _reached(endpoint: Any, host: str) -> str | None:
    """An endpoint as it is reached from here; None for what cannot be, as another machine's files."""
    if not isinstance(endpoint, str):
        return None
    if endpoint.startswith("ipc://"):
        return endpoint if host in _HERE else None
    if not endpoint.startswith("tcp://"):
        return None
    at, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 1 << 16:
        return None
    return f"tcp://{host if at in _ANYWHERE else at}:{port}"


def _shifted(endpoint: str, rank: int) -> str:
    """A rank's own endpoint: the port rises by it; of another transport the name ends with it, as at vLLM."""
    if not rank:
        return endpoint
    if endpoint.startswith("tcp://"):
        at, _, port = endpoint.rpartition(":")
        return f"{at}:{int(port) + rank}"
    return f"{endpoint}_dp{rank}"
