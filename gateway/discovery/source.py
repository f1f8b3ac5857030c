"""What a source of engines is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from config.address import BadAddress, engine_url


class NoAnswer(Exception):
    """The source gives no usable answer now; the text says why.  What it said before still counts."""


class Source(Protocol):
    """One place where a fleet's engines are looked up.

    `most_delay_s`: for how long at most it is left alone after it gave no answer.
    """

    most_delay_s: float

    def watch(self, again: asyncio.Event) -> AsyncIterator[frozenset[str]]:
        """The whole set of the engines' URLs, whenever it may have changed, for ever.

        `again` is set when an engine was lost, and so the last answer is perhaps out of date.  Raises
        NoAnswer, after which it is called anew.
        """
        ...


def url(scheme: str, host: str, port: int) -> str:
    """An engine's URL in the config's one spelling, IPv6 addresses in brackets.  Raises NoAnswer."""
    shown = f"[{host}]" if ":" in host else host
    try:
        return engine_url(f"{scheme}://{shown}:{port}")
    except BadAddress as error:
        raise NoAnswer(f"{host!r} port {port} makes no URL: {error}") from None


async def until(again: asyncio.Event, most_s: float) -> None:
    """Wait until `again` is set, or so long."""
    try:
        async with asyncio.timeout(most_s):
            await again.wait()
    except TimeoutError:
        return
