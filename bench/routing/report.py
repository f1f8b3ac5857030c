"""`python -m bench.routing.report [--brief] runs.jsonl ...`: the tables of runs that `--json` kept.

The last run of a policy on the same traffic counts.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from bench.routing.measures import Measures
from bench.routing.plans import HITS, ORACLE, Row
from bench.routing.table import behind, brief, table

_NAMES = [field.name for field in fields(Measures)]
Ran = dict[int, dict[tuple[float, str], Measures]]
"""By seed, and by load and policy."""


def main() -> None:
    paths = [argument for argument in sys.argv[1:] if argument != "--brief"]
    shown = table if paths == sys.argv[1:] else brief
    for (trace, setting), seeds in read([Path(path) for path in paths]).items():
        rows = complete(seeds)
        print(f"\n### {trace}, {setting} ({len(rows)} seeds)")
        for line in shown(rows):
            print(line)
        print(
            "\n" + "\n".join([f"- {line}" for line in behind(rows)] or ["No policy is ahead of prefix_cost."])
        )


def read(paths: Sequence[Path]) -> dict[tuple[str, str], Ran]:
    """By trace and setting."""
    scenes: dict[tuple[str, str], Ran] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            told = json.loads(line)
            seeds = scenes.setdefault((told["trace"], told["setting"]), {})
            figures = {name: float("nan") if told[name] is None else told[name] for name in _NAMES}
            seeds.setdefault(told["seed"], {})[told["load"], told["policy"]] = Measures(**figures)
    return scenes


def complete(seeds: Ran) -> list[list[Row]]:
    """The seeds that ran everything that most did, oracles last."""
    most = max(len(ran) for ran in seeds.values())
    whole = [ran for _, ran in sorted(seeds.items()) if len(ran) == most]
    order = sorted(whole[0], key=lambda one: (one[0], one[1] == HITS, one[1] == ORACLE, one[1]))
    return [[(load, policy, ran[load, policy]) for load, policy in order] for ran in whole]


if __name__ == "__main__":
    main()
