"""A pause leaves launched engines where they are, and says so; with --stop-engines it ends them, and
frees their GPUs, until the experiment is resumed."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.gateway.test_experiment_switch import command, shown
from tests.gateway.whole import begin, serving, with_engines
from tests.launch.staging import are, arm, ask_until, experiment, gone, launched, settings, until
from tests.support import FINISH, TOKEN, Engine, streams

RUN = {"control": "ready", "c0": "ready"}


def rest(seen: dict[str, dict[str, Any]]) -> bool:
    said = "the experiment is paused and its engines are ended (--stop-engines), until it is resumed"
    return {(one["state"], one["why"]) for one in seen.values()} == {("resting", said)}


def test_engines_of_a_paused_experiment_stay_or_are_ended_as_was_asked_and_come_back_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        await begin(stack, engine := Engine(streams(TOKEN, FINISH)))
        config = settings(engine, experiment(arm(), arm()))
        async with serving(tmp_path, config) as whole:
            first = [one["pid"] for one in (await until(whole, are(**RUN))).values()]

            status, said = await command(whole, "pause", "t")
            assert (status, said) == (
                0,
                "t: paused; the engines launched for it stay, with their GPUs (--stop-engines ends them)\n",
            )
            assert (await shown(whole))["paused"]["stops_engines"] is False

            status, said = await command(whole, "pause", "t", "--stop-engines")
            assert (status, said) == (
                0,
                "t: paused; the engines launched for it are ended, until it is resumed\n",
            )
            await until(whole, rest)
            await gone(*first)
            assert (await shown(whole))["paused"]["stops_engines"] is True

            status, said = await command(whole, "resume", "t", "--stop-engines")
            assert status != 0 and "goes with pause" in said and rest(await launched(whole))

        # also in a gateway that starts again, and for a launching process that is a new one
        async with serving(tmp_path, config) as whole:
            await until(whole, lambda seen: len(seen) == 2 and rest(seen))
            assert {one["starts"] for one in (await launched(whole)).values()} == {0}
            assert json.loads((tmp_path / "state" / ".paused").read_text())["halted"] == ["t"]

            status, said = await command(whole, "resume", "t")
            assert (status, said) == (0, "t: copied\n")
            await until(whole, are(**RUN))
            await ask_until(whole, lambda books: books.get("paired", 0) >= 1)

    with_engines(test)
