"""`python -m bench.routing.decision`: what a choice costs, by policy and length of the prompt, on 16 engines.

A choice is `Router.choose`: who holds how much, the policy, and remembering it.  The chain is made before,
by `routing.prompt`.  Every engine holds half of every prompt and has requests in flight.
"""

import argparse
import gc
from random import Random
from statistics import median
from time import perf_counter_ns

from bench.routing.__main__ import POLICIES
from bench.routing.asks import Talk
from bench.routing.measures import quantile
from bench.routing.plans import policy_of
from routing.index import PrefixIndex
from routing.router import Router
from routing.types import EngineLoad, Prompt, Rates

ENGINES, TIMES = 16, 300
TOKENS = (1_000, 8_000, 32_000, 128_000)
_RATES = Rates(100, 1e-4, 1e-9, 0.02, 0.02, 1e-4, 200.0)


def prompts(tokens: int) -> list[Prompt]:
    """Different from their middle on."""
    made = []
    for number in range(TIMES):
        talk = Talk(16, 4.0)
        talk.say((0, tokens // 2))
        talk.say((1 + number, tokens - tokens // 2))
        made.append(talk.asked((0, 1), number, 0).prompt)
    return made


def times_us(policy: str, asked: list[Prompt]) -> list[float]:
    """Microseconds of each choice."""
    rng = Random(1)
    index = PrefixIndex(1 << 40)
    loads = [EngineLoad(n, rng.randrange(1, 40), rng.randrange(200_000)) for n in range(ENGINES)]
    for load in loads:
        load.rates = _RATES
        half = len(asked[0].chain) // 2
        index.record(load.id, asked[0].chain[:half], asked[0].ends[:half], 0.0)
    router = Router(policy_of(policy), index, rng)
    taken = []
    gc.disable()
    for number, prompt in enumerate(asked):
        began = perf_counter_ns()
        router.choose(prompt, loads, float(number))
        taken.append((perf_counter_ns() - began) / 1e3)
    gc.enable()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.routing.decision", description=__doc__)
    parser.add_argument("--policies", default=" ".join(POLICIES), help="separated by spaces")
    asked = parser.parse_args()
    print(f"µs a choice on {ENGINES} engines, median (p99)\n")
    print(
        f"| policy | {' | '.join(f'{tokens:,} tokens' for tokens in TOKENS)} |\n|---|{'--:|' * len(TOKENS)}"
    )
    made = {tokens: prompts(tokens) for tokens in TOKENS}
    for policy in asked.policies.split():
        cells = []
        for tokens in TOKENS:
            taken = times_us(policy, made[tokens])
            cells.append(f"{median(taken):.0f} ({quantile(sorted(taken), 0.99):.0f})")
        print(f"| {policy} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
