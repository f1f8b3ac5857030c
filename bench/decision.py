"""What does one decision cost: look-up, choice, memory, by prompt and fleet?

    python -m bench.decision

The router as workers have it, `prefix_cost` with learned rates, every engine holding the prompt's beginning:
the dearest case. Reading the body and hashing its text come before and are not counted here (`bench.overhead`
has them). With `PYTHONPATH=build/fast` the compiled form is measured.
"""

import sys
from random import Random
from statistics import median, quantiles
from time import perf_counter_ns

from routing import router as routers
from routing.index import PrefixIndex
from routing.policies import prefix_cost
from routing.router import Router
from routing.types import EngineLoad, Prompt, Rates

KB = 1024
ASKED = 3000


def engine(number: int) -> EngineLoad:
    made = EngineLoad(number, number % 5, 1000 * number)
    made.rates = Rates(64, 1e-4, 1e-9, 0.01, 0.02, 1e-4, 200.0, 4.0)
    made.kv_tokens, made.kv_usage = 500_000, 0.5
    return made


def decided_us(tokens: int, engines: int) -> tuple[float, float]:
    """Median and p99 of a decision."""
    rng, links = Random(1), tokens * 4 // KB
    route = Router(prefix_cost.build(prefix_cost.Params()), PrefixIndex(1 << 40), rng)
    fleet = [engine(number) for number in range(engines)]
    chain, ends = [rng.getrandbits(64) for _ in range(links)], [KB * (n + 1) for n in range(links)]
    for one in fleet:
        route.again(one.id, Prompt("m", chain, ends, 1, 0, True, None), 0.0)
    took: list[int] = []
    for _ in range(ASKED):
        prompt = Prompt("m", [*chain, rng.getrandbits(64)], [*ends, ends[-1] + 500], 1, 0, True, None)
        start = perf_counter_ns()
        choice = route.choose(prompt, fleet, 1.0)
        took.append(perf_counter_ns() - start)
        route.refused(choice.engine, prompt)
    return median(took) / 1e3, quantiles(took, n=100)[98] / 1e3


def main() -> None:
    print("compiled" if routers.__file__.endswith(".so") else "interpreted", sys.version.split()[0])
    for tokens in (8_000, 128_000):
        for engines in (2, 16):
            middle, high = decided_us(tokens, engines)
            print(f"{tokens:7,} tokens, {engines:2} engines: {middle:5.1f} µs, p99 {high:5.1f} µs")


if __name__ == "__main__":
    main()
