"""How often is a diagnosis right?  `python -m bench.why [RUNS] [SECONDS]` prints confusion tables."""

import sys

from analysis.why.rules import Cause
from bench.why.faults import SCENES
from bench.why.score import TELEMETRY, scored, table

SEED = 20_261_130


def main() -> None:
    """Twenty runs of two minutes for each fault, unless told otherwise."""
    runs, seconds = (int(sys.argv[n]) if len(sys.argv) > n else usual for n, usual in ((1, 20), (2, 120)))
    found = list(scored(runs, seconds, SEED))
    columns: list[Cause] = [*SCENES, "unknown"]
    for telemetry in TELEMETRY:
        rows = table(found, telemetry)
        own = [one for one in found if one.telemetry == telemetry]
        right = sum(one.injected == one.found for one in own)
        sure = [one for one in own if one.strength == "measured"]
        true = sum(one.injected == one.found for one in sure)
        print(f"\n{telemetry}: {right} of {len(own)} right; said to be measured, {true} of {len(sure)}\n")
        print(f"| injected | {' | '.join(columns)} |")
        print(f"|---|{'---|' * len(columns)}")
        for cause, counts in rows.items():
            print(f"| {cause} | {' | '.join(str(counts[one] or '') for one in columns)} |")


if __name__ == "__main__":
    main()
