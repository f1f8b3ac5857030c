"""Conversations of one turn as a Poisson process, answered or not, and how each of them ended."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field

import aiohttp

_WORDS = ("river", "stone", "lamp", "cloud", "paper", "glass", "north", "quiet", "green", "seven")
WHOLE = "whole"
_PATIENCE_S = 60.0


@dataclass(slots=True)
class Endings:
    """How conversations ended, and of those without a whole answer when, in s from the beginning."""

    n: Counter[str] = field(default_factory=Counter)
    bad_at_s: dict[str, list[float]] = field(default_factory=dict)

    def add(self, ending: str, at_s: float) -> None:
        """One has ended."""
        self.n[ending] += 1
        if ending != WHOLE:
            self.bad_at_s.setdefault(ending, []).append(at_s)

    def lines(self) -> list[str]:
        """What to print: how many in all, and each cause with its number and when it was seen."""
        bad = self.n.total() - self.n[WHOLE]
        said = [f"{self.n.total()} conversations, {bad} without a whole answer"]
        for ending, seen in sorted(self.bad_at_s.items(), key=lambda item: -len(item[1])):
            said.append(f"  {len(seen):6} {ending}: begun at {min(seen):.0f} to {max(seen):.0f} s")
        return said


def ending_of(status: int, body: bytes) -> str:
    """How an answer ended that came to its end: whole, or in a few words what it lacks."""
    if status == 200:
        if body.rstrip().endswith(b"[DONE]"):
            return WHOLE
        return "200, error inside" if b'"error"' in body else "200, no [DONE]"
    try:
        error = json.loads(body)["error"]
        return f"{status}, {error.get('code') or error.get('type')}: {error.get('message')}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{status}, {body[:80]!r}"


async def converse(port: int, rate: float, seconds: float, tokens: int, rng: random.Random) -> Endings:
    """Ask a gateway for so long, `rate` times a second, for answers of so many tokens."""
    loop, endings = asyncio.get_running_loop(), Endings()
    timeout, connector = aiohttp.ClientTimeout(total=_PATIENCE_S), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        due_s = began_s = loop.time()

        async def one(number: int) -> None:
            words, asked_s = " ".join(rng.choices(_WORDS, k=40)), loop.time() - began_s
            message = {"role": "user", "content": f"{number} {words}"}
            body = {"model": "m", "max_tokens": tokens, "stream": True, "messages": [message]}
            url, status = f"http://127.0.0.1:{port}/v1/chat/completions", None
            try:
                async with http.post(url, json=body | {"ignore_eos": True}) as answer:
                    status = answer.status
                    ending = ending_of(status, await answer.read())
            except (aiohttp.ClientError, TimeoutError) as error:
                came = "before its head" if status is None else f"after its head ({status})"
                ending = f"{type(error).__name__} {came}"
            endings.add(ending, asked_s)

        tasks, number = set[asyncio.Task[None]](), 0
        while due_s < began_s + seconds:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            tasks.add(task := loop.create_task(one(number)))
            task.add_done_callback(tasks.discard)
            number, due_s = number + 1, due_s + rng.expovariate(rate)
        await asyncio.gather(*tasks)
    return endings
