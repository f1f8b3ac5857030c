"""`python -m bench.routing.most`: how much does a fleet bear by policy, as a multiple of `least_load`'s?

The most is the highest rate at which 90 % of the requests are answered within the objectives, found by
bisection to a few percent, on traffic of one seed.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from bench.routing.__main__ import POLICIES
from bench.routing.plans import ORACLE, capacity, scene
from bench.routing.setting import OTHERS
from bench.routing.traces import DRAWN


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.routing.most", description=__doc__)
    parser.add_argument("--policies", default=" ".join(POLICIES), help="separated by spaces")
    parser.add_argument("--traces", default=",".join(DRAWN))
    parser.add_argument("--setting", default="usual", choices=OTHERS)
    parser.add_argument(
        "--requests", type=int, default=3000, help="measured in a run, about: few tell of a cold start"
    )
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    policies = dict.fromkeys(["least_load", *asked.policies.split(), ORACLE])
    setting, traces = OTHERS[asked.setting], asked.traces.split(",")
    scenes = {trace: scene(trace, asked.setting, setting, asked.requests) for trace in traces}
    with ProcessPoolExecutor(asked.jobs) as pool:
        wanted = list(product(scenes, policies))
        speeds = pool.map(capacity, [scenes[trace] for trace, _ in wanted], [name for _, name in wanted])
        found = dict(zip(wanted, speeds, strict=True))
    print(f"| policy | {' | '.join(scenes)} |\n|---|{'--:|' * len(scenes)}")
    for policy in policies:
        shares = (found[trace, policy] / found[trace, "least_load"] for trace in scenes)
        print(f"| {policy} | {' | '.join(f'{share:.2f}' for share in shares)} |")


if __name__ == "__main__":
    main()
