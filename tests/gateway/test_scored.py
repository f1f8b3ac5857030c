"""A whole gateway asks other policies about its requests, and counts what they would have done."""

import asyncio
import json
from pathlib import Path

from tests.failures.processes import engine_that, serving
from tests.support import CHAT, FINISH, TOKEN, ask, post, streams
from tests.support_shared import run

TOLD = '"usage":{"prompt_tokens":50,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":40}}'


def test_other_policies_are_asked_and_counted_and_not_obeyed(tmp_path: Path) -> None:
    async def test() -> None:
        script = streams(TOKEN, FINISH, '{"choices":[],' + TOLD + "}")
        async with engine_that(script) as one, engine_that(script) as other:
            config = {
                "fleets": [
                    {
                        "model": "m",
                        "engines": [one.url, other.url],
                        "policy": {"name": "session"},
                        "score": {"policies": [{"name": "round_robin"}, {"name": "session"}], "share": 1.0},
                    }
                ]
            }
            file = tmp_path / "config.json"
            file.write_text(json.dumps(config))
            async with serving(tmp_path, "--config", str(file)) as whole:
                for _ in range(20):
                    assert (await ask(whole.port, post(CHAT))).is_whole
                assert sorted((len(one.asked), len(other.asked))) == [0, 20], "one conversation"
                told: dict[str, float] = {}
                async with asyncio.timeout(20):
                    while told.get("first_token_ms session", 0.0) < 1.0 or told["requests session"] < 20:
                        await asyncio.sleep(0.1)
                        told = scores(await whole.metrics())
            assert told["requests round_robin"] == told["agreed session"] == 20
            assert 9 <= told["agreed round_robin"] <= 11
            assert told["prompt_tokens session"] == 20 * 50
            assert told["cached_tokens session"] == 20 * 40
            assert told["weight session"] == told["weight_squared session"] == 20 * 1000

    run(test())


def scores(series: list[str]) -> dict[str, float]:
    """What is said of policies, by figure and policy."""
    found: dict[str, float] = {}
    for line in series:
        if line.startswith("shadowlane_shadow_") and "_total{" in line:
            name, _, rest = line.removeprefix("shadowlane_shadow_").partition("_total{")
            policy = rest.split('policy="')[1].split('"')[0]
            found[f"{name} {policy}"] = float(line.rsplit(" ", 1)[1])
    return found
