"""Does a launched engine serve yet, what is it, and how is it warmed up?  Asked over HTTP."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp

from gateway.fleets.detect import PROBES, kind_of
from gateway.fleets.probe import Place, ask
from gateway.launch.spec import LaunchedSpec

_HEALTH = ("/health", "/v1/models")
_ABSENT = frozenset({404, 405, 501})
_KIND_S = 5.0
_TOKENS = 16
_AT_A_TIME = 4


class Asking:
    """Questions to one engine."""

    def __init__(self, spec: LaunchedSpec, http: aiohttp.ClientSession) -> None:
        self._spec = spec
        self._http = http
        self._headers = {} if spec.api_key is None else {"authorization": f"Bearer {spec.api_key}"}

    async def serves(self, timeout_s: float) -> bool:
        """Whether it answers its health probe with 200."""
        paths: Sequence[str] = _HEALTH if self._spec.health is None else (self._spec.health,)
        for path in paths:
            status = await self._status(path, timeout_s)
            if status not in _ABSENT:
                return status == 200
        return False

    async def kind(self) -> str | None:
        """What it speaks; None when it does not tell."""
        heard = await ask(Place(self._spec.url, self._spec.api_key), _KIND_S, PROBES)
        return None if heard.error is not None else kind_of(heard.answers)

    async def warm(self, timeout_s: float) -> str | None:
        """Ask it some small things, a few at a time; None when it answers, else how it failed.

        One that serves neither completions nor chats, an embedder for example, is warm as it is.
        """
        if self._spec.warm_up == 0:
            return None
        try:
            async with asyncio.timeout(timeout_s):
                model = self._spec.model or await self._model()
                numbers = iter(range(1, self._spec.warm_up))
                if (why := await self._ask(model, 0)) is not None:
                    return why
                found = await asyncio.gather(*(self._some(model, numbers) for _ in range(_AT_A_TIME)))
        except TimeoutError:
            return "no answer in time"
        return next((why for why in found if why is not None), None)

    async def _some(self, model: str, numbers: "Any") -> str | None:
        for number in numbers:
            if (why := await self._ask(model, number)) is not None:
                return why
        return None

    async def _ask(self, model: str, number: int) -> str | None:
        text = f"Warm-up request {number}: say what comes next in one, two, three, four, five,"
        limits: dict[str, Any] = {"model": model, "max_tokens": _TOKENS}
        chat = {**limits, "messages": [{"role": "user", "content": text}]}
        for path, body in (("/v1/completions", {**limits, "prompt": text}), ("/v1/chat/completions", chat)):
            try:
                async with self._http.post(self._spec.url + path, json=body, headers=self._headers) as answer:
                    await answer.read()
                    if answer.status == 200:
                        return None
                    if answer.status >= 500 and answer.status not in _ABSENT:
                        return f"{path} answered {answer.status}"
            except (aiohttp.ClientError, OSError) as error:
                return f"{path}: {error or type(error).__name__}"
        return None

    async def _model(self) -> str:
        try:
            async with self._http.get(self._spec.url + "/v1/models", headers=self._headers) as answer:
                listed = await answer.json(content_type=None)
                return str(listed["data"][0]["id"])
        except (aiohttp.ClientError, OSError, ValueError, KeyError, IndexError, TypeError):
            return "default"

    async def _status(self, path: str, timeout_s: float) -> int:
        try:
            async with asyncio.timeout(timeout_s):
                async with self._http.get(self._spec.url + path, headers=self._headers) as answer:
                    await answer.read()
                    return answer.status
        except (aiohttp.ClientError, OSError):  # TimeoutError is an OSError
            return 0
