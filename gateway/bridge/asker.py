"""How an engine is asked for a prompt's token ids: what it offers is found out, one question at a time."""

import asyncio
from collections import Counter
from enum import Enum
from typing import Any

import aiohttp
import msgspec

from gateway.bridge.frames import EnginePlace
from routing.bridge.fit import CHAT, Fit, render_body, tokenize_body
from wire.tls import BadTls, ClientTls, client_context

_TIMEOUT_S = 10.0
_MOST_BYTES = 8 << 20
_TOKENIZE = ("/tokenize", "/v1/tokenize")
_RENDER = "/render"
USER_AGENT = "shadowlane-lessons"
"""By this an engine's log tells what was asked to learn by from what clients asked."""
_REFUSED = frozenset({401, 403, 404, 405, 501})
_LATER = frozenset({0, 408, 425, 429, 502, 503, 504})
"""Statuses that say nothing of what was asked; 0 is no answer at all.  A 500 may be the template's word."""


class UnansweredError(Exception):
    """The engine did not say: it is to be asked again."""


class _Answer(msgspec.Struct):
    """vLLM's /tokenize and /render, and SGLang's /v1/tokenize."""

    tokens: list[int] | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


_decode = msgspec.json.Decoder(_Answer | list[_Answer]).decode


class Offer(Enum):
    """Whether something is there."""

    UNKNOWN = "unknown"
    YES = "yes"
    NO = "no"


class Asker:
    """One engine's side door.  Nothing is asked while another question waits for its answer."""

    def __init__(self, place: EnginePlace) -> None:
        self.place = place
        self.counts: Counter[str] = Counter()
        self.tokenize = Offer.UNKNOWN
        self.render = Offer.UNKNOWN
        self._path = _TOKENIZE[0]
        self._turn = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close its connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def look_again(self) -> None:
        """It may offer now what it did not before."""
        self.tokenize = self.render = Offer.UNKNOWN

    async def ids(self, fit: Fit) -> list[int] | None:
        """The token ids of a request's prompt; None when the engine does not tell, counted by why."""
        body = tokenize_body(fit, self.place.model)
        async with self._turn:
            if body is not None and self.tokenize is not Offer.NO:
                _, found = await self._tokenized(body)
                if found is not None or self.tokenize is Offer.YES:
                    return found
            if self.render is not Offer.NO:
                status, found = await self._asked(fit.path + _RENDER, render_body(fit, self.place.model))
                self.render = _seen(self.render, status, found)
                if found is not None:
                    return found
        self.counts["not_offered"] += 1
        return None

    async def chat_ids(self, body: dict[str, Any], model: str | None) -> list[int] | None:
        """The token ids of a made-up chat for the probe; None when it is refused.  Raises UnansweredError."""
        name = self.place.model or model
        named = body if name is None else {"model": name, **body}
        async with self._turn:
            if self.tokenize is not Offer.NO:
                status, found = await self._tokenized(named)
                if status in _LATER:
                    raise UnansweredError
                if found is not None or self.tokenize is Offer.YES:
                    return found
            if self.render is Offer.NO:
                return None
            status, found = await self._asked(CHAT + _RENDER, named)
            if status in _LATER:
                raise UnansweredError
            self.render = _seen(self.render, status, found)
            return found

    async def _tokenized(self, body: dict[str, Any]) -> tuple[int, list[int] | None]:
        for path in (self._path,) if self.tokenize is Offer.YES else _TOKENIZE:
            status, found = await self._asked(path, body)
            if found is not None:
                self.tokenize, self._path = Offer.YES, path
                break
            if self.tokenize is Offer.YES or status not in _REFUSED:
                break  # it is there, and refuses this one; or did not answer
        else:
            self.tokenize = Offer.NO
        return status, found

    async def _asked(self, path: str, body: dict[str, Any]) -> tuple[int, list[int] | None]:
        """The answer's status, 0 where there was none, and the ids it holds."""
        try:
            session, url = self._opened()
            tls = self.place.tls
            async with session.post(
                url + path,
                data=msgspec.json.encode(body),
                headers={"content-type": "application/json"},
                allow_redirects=False,
                server_hostname=None if tls is None else tls.server_name,
            ) as response:
                answer, status = await _whole(response.content), response.status
        except (
            OverflowError,
            RecursionError,
        ):  # JSON that can be read and not written: numbers beyond 64 bits
            self.counts["unwritable"] += 1
            return 0, None
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, BadTls):
            self.counts["failed"] += 1
            return 0, None
        if status != 200:
            self.counts["refused"] += 1
            return status, None
        return status, _ids_in(answer)

    def _opened(self) -> tuple[aiohttp.ClientSession, str]:
        place, url = self.place, self.place.url.rstrip("/")
        is_unix = url.startswith("unix://")
        if self._session is None:
            headers = {"user-agent": USER_AGENT}
            if place.api_key is not None:
                headers["authorization"] = f"Bearer {place.api_key}"
            connector: aiohttp.BaseConnector
            if is_unix:
                connector = aiohttp.UnixConnector(url.removeprefix("unix://"), limit=1)
            else:
                secure = url.startswith("https:")
                context = client_context(place.tls or ClientTls()) if secure else True
                connector = aiohttp.TCPConnector(limit=1, ssl=context, keepalive_timeout=3.0)
            timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers)
        return self._session, "http://localhost" if is_unix else url


async def _whole(content: aiohttp.StreamReader) -> bytes:
    """All of an answer, however many pieces it comes in; b"" of one that is longer than any prompt's ids."""
    pieces, size = [], 0
    async for piece in content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_BYTES:
            return b""
    return b"".join(pieces)


def _seen(before: Offer, status: int, found: list[int] | None) -> Offer:
    if found is not None:
        return Offer.YES
    return Offer.NO if status in _REFUSED and before is not Offer.YES else before


def _ids_in(answer: bytes) -> list[int] | None:
    try:
        told = _decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if isinstance(told, list):
        if len(told) != 1:
            return None
        told = told[0]
    return told.tokens or told.token_ids or told.prompt_token_ids
