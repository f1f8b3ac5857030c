"""The stage, once for all clients, and the openai SDK's two clients asked in one way."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from tests.clients.stage import KEY, Stage, staged

Ask = Callable[[Any], Any]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Engines and a gateway that asks for keys."""
    with staged(tmp_path_factory.mktemp("clients")) as made:
        yield made


class Sdk:
    """The openai SDK.  `ask` gives what a call gives; of a stream the list of its chunks."""

    def __init__(self, url: str, ask: Callable[[str, Ask, dict[str, Any]], Any]) -> None:
        self.url = url
        self._ask = ask

    def ask(self, use: Ask, **options: Any) -> Any:
        """`use` gets a client made with `options`, through the gateway."""
        return self._ask(self.url, use, options)

    def direct(self, url: str, use: Ask) -> Any:
        """The same, past the gateway."""
        return self._ask(url, use, {})


def _blocking(url: str, use: Ask, options: dict[str, Any]) -> Any:
    given = {"api_key": KEY, "max_retries": 0, "timeout": 20.0, **options}
    with openai.OpenAI(base_url=f"{url}/v1", **given) as client:
        answer = use(client)
        return list(answer) if isinstance(answer, openai.Stream) else answer


def _waiting(url: str, use: Ask, options: dict[str, Any]) -> Any:
    given = {"api_key": KEY, "max_retries": 0, "timeout": 20.0, **options}

    async def go() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", **given) as client:
            answer = await use(client)
            return [chunk async for chunk in answer] if isinstance(answer, openai.AsyncStream) else answer

    return asyncio.run(go())


@pytest.fixture(params=[_blocking, _waiting], ids=["sync", "async"])
def sdk(request: pytest.FixtureRequest, stage: Stage) -> Sdk:
    """Either client of the SDK."""
    return Sdk(stage.url, request.param)
