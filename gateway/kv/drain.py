"""TensorRT-LLM's events, which reading takes away: this process alone reads them, and tells them again."""

import asyncio
from collections.abc import Sequence
from random import uniform
from typing import TYPE_CHECKING, Final

import aiohttp
import zmq

from gateway.kv.republish import Republisher
from gateway.kv.sources import Source, host_of
from routing.events.trtllm import Translator
from wire.tls import BadTls, ClientTls, client_context

if TYPE_CHECKING:
    from gateway.kv.feed import Feed, Followed

PATH: Final = "/kv_cache_events"
_EVERY_S: Final = 0.25
_MOST_DELAY_S: Final = 30.0
_TIMEOUT_S: Final = 10.0
_MOST_BYTES: Final = 32 << 20


async def drain(feed: "Feed", followed: "Followed") -> None:
    """Read an engine's events again and again, for ever."""
    engine, delay_s = followed.engine, _EVERY_S
    translator = Translator()
    out = _republishers(feed, followed)
    try:
        async with _session(followed) as session:
            while True:
                error = await _read(session, engine.url + PATH, translator, followed, out)
                if error is None:
                    delay_s = _EVERY_S
                else:
                    for heard in followed.heard.values():
                        heard.is_linked = False
                    if error != followed.error:
                        feed.log.info("no KV events", engine=engine.url, why=error)
                    followed.error = error
                    delay_s = min(_MOST_DELAY_S, 2 * delay_s)
                await asyncio.sleep(uniform(0.8 * delay_s, delay_s))
    except BadTls as error:
        followed.error = str(error)
    finally:
        for one in out:
            one.close()


async def _read(
    session: aiohttp.ClientSession,
    url: str,
    translator: Translator,
    followed: "Followed",
    out: Sequence[Republisher],
) -> str | None:
    """Take in what has come since the last time; why not, where that is so."""
    try:
        async with session.post(url, allow_redirects=False) as response:
            body = await response.content.read(_MOST_BYTES) if response.status == 200 else b""
            while not response.content.at_eof() and 0 < len(body) < _MOST_BYTES:
                body += await response.content.read(_MOST_BYTES - len(body))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        return str(error) or type(error).__name__
    if response.status != 200:
        return f"{PATH} is answered with {response.status}"
    try:
        messages = translator.take(body)
    except ValueError as error:
        return f"{PATH}: {error}"
    for rank, number, payload in messages:
        heard = followed.heard.get(rank) or followed.open(Source(rank, url), listen=False)
        if heard is not None:
            heard.is_linked = True
            heard.take([b"", number.to_bytes(8, "big"), payload])
        if rank < len(out):
            out[rank].publish(number, payload)
    followed.error = None if followed.heard else "it has told of none yet"
    return None


def _session(followed: "Followed") -> aiohttp.ClientSession:
    engine = followed.engine
    context = client_context(engine.tls or ClientTls()) if engine.url.startswith("https:") else True
    headers = {} if engine.api_key is None else {"authorization": f"Bearer {engine.api_key}"}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, ssl=context),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
        headers=headers,
    )


def _republishers(feed: "Feed", followed: "Followed") -> list[Republisher]:
    """Where its events are told again, by rank: first of all those of the fleet's first engine, from the port
    of the config on, then where they are replayed; then those of the next."""
    engine, found = followed.engine, list[Republisher]()
    endpoint, ranks = engine.events.publish_drained, engine.events.ranks
    if endpoint is None:
        return found
    at, _, port = endpoint.rpartition(":")
    first = int(port) + 2 * ranks * feed.place_of(engine)
    topic = f"kv@{host_of(engine.url)}@{engine.fleet}"
    try:
        for own in range(first, first + ranks):
            found.append(Republisher(feed.context, f"{at}:{own}", f"{at}:{own + ranks}", topic, feed.failed))
    except zmq.ZMQError as error:
        feed.log.error("events cannot be told again", endpoint=f"{at}:{first}", why=str(error))
        for one in found:
            one.close()
        return []
    return found
