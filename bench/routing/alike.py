"""`python -m bench.routing.alike`: do our copies of others' policies choose as the programs themselves do?

A program's router is started in front of engines that answer when they are told to, so both sides' loads are
known.  For each request our policy is asked first, from what went before: which engines may it take, and by
which rule?  Then the program chooses, and its choice is what both go on from.  Where our policy leaves
nothing to chance the two agree or they do not; where lots are drawn, the program's must be one of them.

vllm-router asks engines for a prompt's tokens, and now and then chooses before it has them, by load alone:
99 % is the bound. Dynamo's selection service says what it counts, too: `bench.routing.selection`.
"""

import asyncio
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from random import Random

import aiohttp
from aiohttp import web

from bench.proxies import Argv, Proxy, peers
from bench.routing import selection
from bench.routing.plans import policy_of
from bench.stage import Stage, free_ports, staged
from routing.index import PrefixIndex
from routing.policy import Policy
from routing.prompt import read
from routing.types import EngineLoad, Prompt
from wire.tasks import Tasks

ENGINES, REQUESTS = 4, 400
_LOTS = 60
_THRESHOLDS = "cache_threshold=0.3,balance_abs_threshold=6,balance_rel_threshold=1.5"
_FLAGS = ("--cache-threshold", "0.3", "--balance-abs-threshold", "6", "--balance-rel-threshold", "1.5")


@dataclass(frozen=True, slots=True)
class Case:
    """A program's policy, and ours that copies it."""

    program: str
    policy: str
    flags: Sequence[str]
    ours: str


# sglang-router's power_of_two compares token counts that it polls now and then: nothing to agree with here.
CASES = (
    Case("sglang-router", "cache_aware", _FLAGS, f"sglang_cache_aware:{_THRESHOLDS}"),
    Case("vllm-router", "cache_aware", _FLAGS, f"sglang_cache_aware:{_THRESHOLDS}"),
    Case("vllm-router", "power_of_two", (), "power_of_two"),
)


class Engines:
    """HTTP servers that answer nothing until told."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[tuple[int, asyncio.Event]] = asyncio.Queue()

    async def serve(self, ports: Sequence[int], undo: AsyncExitStack) -> None:
        for number, port in enumerate(ports):
            app = web.Application(client_max_size=1 << 24)
            app[_NUMBER] = number
            app.router.add_post("/v1/completions", self._complete)
            app.router.add_post("/tokenize", self._tokenize)
            app.router.add_route("*", "/{rest:.*}", self._rest)
            runner = web.AppRunner(app)
            await runner.setup()
            undo.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", port).start()

    async def _complete(self, request: web.Request) -> web.Response:
        await request.read()
        go = asyncio.Event()
        self.arrived.put_nowait((request.app[_NUMBER], go))
        await go.wait()
        return web.json_response({"id": "1", "object": "text_completion", "model": "m", "choices": []})

    async def _tokenize(self, request: web.Request) -> web.Response:
        asked = await request.json()
        text = asked["prompt"] if "prompt" in asked else "".join(one["content"] for one in asked["messages"])
        tokens = list(text.encode())  # vllm-router matches tokens: a byte each, as we match bytes
        return web.json_response({"count": len(tokens), "max_model_len": 1 << 20, "tokens": tokens})

    async def _rest(self, request: web.Request) -> web.Response:
        if request.path not in _KNOWN:
            raise web.HTTPNotFound
        return web.json_response({"object": "list", "data": [{"id": "m"}], "model_path": "m"})


_KNOWN = {"/health", "/v1/models", "/model_info", "/server_info", "/v1/chat/completions"}
_NUMBER = web.AppKey("number", int)


async def compare(case: Case, url: str, engines: Engines, seed: int) -> Counter[str]:
    """How often the program chose what our policy must or may choose, by our policy's reason."""
    rng, policy, index = Random(seed), policy_of(case.ours), PrefixIndex(1 << 30)
    loads = [EngineLoad(n, 0, 0) for n in range(ENGINES)]
    beginnings = [_text(rng, rng.randrange(2, 9)) for _ in range(12)]
    flying: list[tuple[int, asyncio.Event, asyncio.Task[None]]] = []
    found: Counter[str] = Counter()
    tasks = Tasks()
    async with aiohttp.ClientSession() as client:
        for _ in range(REQUESTS):
            while flying and rng.random() < len(flying) / 40:
                engine, go, sent = flying.pop(rng.randrange(len(flying)))
                go.set()
                await sent
                loads[engine].inflight -= 1
            text = rng.choice(beginnings) + _text(rng, rng.randrange(1, 7))
            body = json.dumps({"model": "m", "prompt": text}).encode()
            prompt = read("/v1/completions", body, b"key")
            may, why = _may(policy, prompt, loads, index)
            sent = tasks.spawn(_send(client, url, body), name="ask")
            engine, go = await asyncio.wait_for(engines.arrived.get(), 30)
            lot = "" if len(may) == 1 else ", one of several"
            found[f"{why}: {'alike' if engine in may else 'DIFFERENT'}{lot}"] += 1
            index.record(engine, prompt.chain, prompt.ends, 0.0)
            loads[engine].inflight += 1
            flying.append((engine, go, sent))
        for _, go, sent in flying:
            go.set()
            await sent
    return found


def _may(
    policy: Policy, prompt: Prompt, loads: Sequence[EngineLoad], index: PrefixIndex
) -> tuple[set[int], str]:
    """Whom our policy may take, and why.  Of several who hold the most it takes one, the program another."""
    held = index.match(prompt.chain, prompt.ends)
    choices = [policy.choose(prompt, loads, held, Random(lot)) for lot in range(_LOTS)]
    may, why = {choice.engine for choice in choices}, choices[0].why
    if why == "holds the most":
        may = {engine for engine, size in held.items() if size == max(held.values())}
    return may, why


async def _send(client: aiohttp.ClientSession, url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with client.post(url + "/v1/completions", data=body, headers=headers) as answer:
        await answer.read()
        if answer.status != 200:
            raise SystemExit(f"the router answered {answer.status}")


def _text(rng: Random, kilobytes: int) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=1024 * kilobytes))


async def _case(stage: Stage, case: Case, proxy: Proxy) -> bool:
    async with AsyncExitStack() as undo:
        engines, ports = Engines(), free_ports(ENGINES)
        await engines.serve(ports, undo)
        proxy = replace(proxy, argv=_with(proxy.argv, case))
        running = await asyncio.to_thread(stage.start, proxy, ports, pinned=False)
        found = await compare(case, f"http://127.0.0.1:{running.port}", engines, seed=1)
        await asyncio.to_thread(stage.stop, running)
    return _said(f"{case.program} --policy {case.policy}, beside {case.ours.partition(':')[0]}", found)


def _said(what: str, found: Counter[str]) -> bool:
    print(f"\n{what}:")
    for words, number in sorted(found.items()):
        print(f"  {number:4} {words}")
    return sum(number for words, number in found.items() if "DIFFERENT" in words) <= REQUESTS / 100


def _with(argv: Argv, case: Case) -> Argv:
    return lambda *given: [
        case.policy if word == "cache_aware" else word for word in (*argv(*given), *case.flags)
    ]


def main() -> None:
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # they also try HTTP/2 and gRPC
    python = os.environ.get("DYNAMO_PYTHON")
    found, missing = peers()
    proxies, good = {proxy.name: proxy for proxy in found}, True
    print(*(line for line in missing if "router" in line), sep="\n")
    with staged() as stage:
        for case in CASES:
            if case.program in proxies:
                good &= asyncio.run(_case(stage, case, proxies[case.program]))
    if python is None:
        print("skipped: dynamo (DYNAMO_PYTHON names no interpreter; see bench/README.md)")
    else:
        counted, _ = asyncio.run(selection.compare(python, seed=1))
        good &= _said("dynamo.select_service, beside dynamo_cost", counted)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
