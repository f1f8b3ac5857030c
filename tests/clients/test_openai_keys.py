"""The gateway's own keys and limits, as the openai SDK sees them: its exceptions, its way to wait."""

import time
from typing import Any

import openai
import pytest

from tests.clients.conftest import Sdk
from tests.clients.stage import SLOW_KEY

HELLO: Any = [{"role": "user", "content": "hi"}]


def ask(client: Any) -> Any:
    return client.chat.completions.create(model="emulated", messages=HELLO, max_tokens=2)


def test_a_key_nobody_has_is_an_authentication_error(sdk: Sdk) -> None:
    with pytest.raises(openai.AuthenticationError) as raised:
        sdk.ask(ask, api_key="sk-wrong")
    assert raised.value.code == "unknown_key"
    with pytest.raises(openai.AuthenticationError):
        sdk.ask(lambda client: client.models.with_raw_response.list(), api_key="sk-wrong")


def test_a_limit_is_a_rate_limit_error_with_the_time_to_wait_and_the_sdk_waits_it(sdk: Sdk) -> None:
    def until_refused() -> None:
        for _ in range(20):  # how much is in the bucket depends on when it was last asked
            sdk.ask(ask, api_key=SLOW_KEY)

    began_s = time.monotonic()
    with pytest.raises(openai.RateLimitError) as raised:
        until_refused()
    assert raised.value.response.headers["retry-after"] == "1"
    assert isinstance(raised.value.body, dict) and "requests" in raised.value.body["message"]
    assert sdk.ask(ask, api_key=SLOW_KEY, max_retries=2).choices[0].message.content
    assert time.monotonic() - began_s > 0.9
