"""The stage, once for all clients, and the openai SDK's two clients asked in one way."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import openai
import pytest

from tests.clients.stage import KEY, Stage, staged
from tests.clients.stage import until as wait_until
from tests.support import Engine

Ask = Callable[[Any], Any]
_OPTIONS: dict[str, Any] = {"api_key": KEY, "max_retries": 0, "timeout": 20.0}


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Engines and a gateway that asks for keys."""
    with staged(tmp_path_factory.mktemp("clients")) as made:
        yield made


@pytest.fixture
def engine(stage: Stage) -> Iterator[Engine]:
    """The scripted engine, with nothing asked yet."""
    stage.scripted.engine.asked.clear()
    yield stage.scripted.engine
    wait_until(stage.is_free)  # however the test ended its requests


class Sdk(Protocol):
    """A client of the openai SDK, asked without regard to which."""

    def ask(self, use: Ask, **options: Any) -> Any:
        """What `use` gets out of a client with `options`; of a stream the list of its chunks."""


class _Blocking:
    def __init__(self, url: str) -> None:
        self.client = openai.OpenAI(base_url=f"{url}/v1", **_OPTIONS)

    def ask(self, use: Ask, **options: Any) -> Any:
        answer = use(self.client.with_options(**options))
        return list(answer) if isinstance(answer, openai.Stream) else answer

    def close(self) -> None:
        self.client.close()


class _Waiting:
    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self.client = openai.AsyncOpenAI(base_url=f"{url}/v1", **_OPTIONS)

    def ask(self, use: Ask, **options: Any) -> Any:
        async def go() -> Any:
            answer = await use(self.client.with_options(**options))
            return [chunk async for chunk in answer] if isinstance(answer, openai.AsyncStream) else answer

        return self._runner.run(go())

    def close(self) -> None:
        self._runner.run(self.client.close())
        self._runner.close()


@pytest.fixture(scope="session", params=[_Blocking, _Waiting], ids=["sync", "async"])
def sdk(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Sdk]:
    """Either client of the SDK: one for all tests, as a program has one."""
    made = request.param(stage.url)
    yield made
    made.close()


@pytest.fixture(scope="session")
def direct(stage: Stage) -> Iterator[Sdk]:
    """A client of an emulated engine, past the gateway."""
    made = _Blocking(stage.engines[0])
    yield made
    made.close()
