"""Experiments over a reload: the unchanged go on, the changed begin anew, those gone close their books."""

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.support import FINISH, TOKEN, Engine, ask, post, streams

ASKED = 12


def talk(n: int) -> bytes:
    return b'{"model":"m","stream":true,"messages":[{"role":"user","content":"talk %d"}]}' % n


async def ask_all(whole: Whole, start: int) -> None:
    """So many conversations, each of one turn, all of which every experiment is offered."""
    for n in range(start, start + ASKED):
        answer = await ask(whole.port, post(talk(n)))
        assert answer.status == 200 and answer.is_whole


async def ranking(whole: Whole, name: str) -> dict[str, Any]:
    async with whole.http.get(f"{whole.admin}/api/experiments/{name}") as answer:
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


async def closed(whole: Whole, name: str, admitted: int) -> dict[str, Any]:
    """The ranking, once so many copies were admitted and every one is accounted for."""
    async with asyncio.timeout(40):
        while True:
            found = await ranking(whole, name)
            books = found.get("books", {})
            dropped = sum(books.get("dropped", {}).values())
            if books.get("admitted") == admitted and admitted == books["paired"] + dropped:
                return found
            await asyncio.sleep(0.1)


def experiment(name: str, model: str, control: Engine, candidate: Engine, **more: Any) -> dict[str, Any]:
    arms = {"control": {"engine": control.url}, "candidates": [{"name": "c", "engine": candidate.url}]}
    return {"name": name, "fleet": model, "sample": {"rate": 1.0}, **arms, **more}


def test_an_unchanged_experiment_goes_on_a_changed_one_begins_anew_and_a_removed_one_ends(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(9)]
        await begin(stack, *engines)
        one, two, three = (
            {"model": model, "engines": [{"url": engines[n].url, "kind": "vllm"}]}
            for n, model in enumerate(("m", "n", "o"))
        )
        same = experiment("same", "m", engines[3], engines[4])
        other = experiment("other", "n", engines[5], engines[6])
        gone = {**experiment("gone", "o", engines[7], engines[8])}
        settings = {"fleets": [one, two, three], "experiments": [same, other, gone]}
        async with serving(tmp_path, settings) as whole:
            async with asyncio.timeout(30):  # the lane is up when copies are taken
                for n in count(1000):
                    await ask(whole.port, post(talk(n)))
                    if engines[3].asked:
                        break
                    await asyncio.sleep(0.1)
            before = await closed(whole, "same", await standing(whole, "same"))
            admitted = before["books"]["admitted"]
            await ask_all(whole, 0)
            before = await closed(whole, "same", admitted + ASKED)
            assert before["epoch"] == 1

            changed = {**other, "control": {"engine": engines[7].url}}
            whole.write(experiments=[same, changed])
            status, said = await whole.reload()
            assert (status, said["trouble"]) == (200, {})
            names = [found["name"] for found in (await whole.status())["experiments"]]
            assert names == ["same", "other"]
            assert (await ranking(whole, "other"))["epoch"] == 2
            assert (await whole.status())["troubles"] == {}
            assert sorted(path.name for path in (tmp_path / "state" / "other").iterdir()) == [
                "log.epoch-1.msgpack",
                "log.msgpack",
            ]
            assert (tmp_path / "state" / "gone" / "log.msgpack").exists()

            await ask_all(whole, 100)
            after = await closed(whole, "same", admitted + 2 * ASKED)  # not one copy lost over the reload
            assert after["epoch"] == 1
            assert after["pairs"] >= before["pairs"]

            whole.write(experiments=[same, {**changed, "alpha": 0.01}])  # judged otherwise: anew as well
            assert (await whole.reload())[0] == 200
            assert (await ranking(whole, "other"))["epoch"] == 3
            whole.write(
                experiments=[same, {**changed, "alpha": 0.01, "max_inflight": 3}]
            )  # the same question
            assert (await whole.reload())[0] == 200
            assert (await ranking(whole, "other"))["epoch"] == 3

            whole.write(experiments=[])
            assert (await whole.reload())[0] == 200
            assert (await whole.status())["experiments"] == []
            asked = len(engines[3].asked)
            await ask_all(whole, 200)
            assert len(engines[3].asked) == asked

            whole.write(experiments=[same])  # what it was goes on where it was
            assert (await whole.reload())[0] == 200
            assert (await ranking(whole, "same"))["epoch"] == 1
            await ask_all(whole, 300)
            await closed(whole, "same", admitted + 3 * ASKED)

    with_engines(test)


async def standing(whole: Whole, name: str) -> int:
    """How many copies were admitted, once that number stands still for two reports."""
    last = -1
    async with asyncio.timeout(30):
        while True:
            books = (await ranking(whole, name)).get("books", {})
            now = int(books.get("admitted", 0))
            if now == last and now:
                return now
            last = now
            await asyncio.sleep(1.5)


def test_the_first_experiment_of_a_gateway_starts_its_shadow_process(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(3)]
        await begin(stack, *engines)
        fleets = [{"model": "m", "engines": [{"url": engines[0].url, "kind": "vllm"}]}]
        async with serving(tmp_path, {"fleets": fleets}) as whole:
            assert "_shadow" not in whole.children()
            whole.write(experiments=[experiment("t", "m", engines[1], engines[2])])
            assert (await whole.reload())[0] == 200
            async with asyncio.timeout(30):
                for n in count():
                    assert (await ask(whole.port, post(talk(n)))).status == 200
                    if engines[1].asked and engines[2].asked:
                        break
                    await asyncio.sleep(0.1)
            assert "_shadow" in whole.children()

    with_engines(test)
