"""`python -m bench.routing`: which policy routes best, on which trace, at which load, in which setting."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from pkgutil import iter_modules

from bench.routing import capacities
from bench.routing.plans import Row, Scene, rows, scene
from bench.routing.setting import OTHERS
from bench.routing.table import behind, table
from bench.routing.traces import DRAWN, MOONCAKE
from routing import policies as rooms

POLICIES = sorted(room.name for room in iter_modules(rooms.__path__) if not room.name.startswith("_"))


def main() -> None:
    asked = _asked()
    scenes = list(_scenes(asked))
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = capacities.of(scenes, pool)
        ran: dict[Scene, list[Future[list[Row]]]] = {
            one: [
                pool.submit(rows, one, found[one], asked.loads, asked.policies, seed)
                for seed in range(asked.seeds)
            ]
            for one in scenes
        }
        for one, futures in ran.items():
            seeds = [future.result() for future in futures]
            _show(one, found[one], seeds)
            if asked.json:
                _keep(asked.json, one, found[one], seeds)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.routing", description=__doc__)
    listed = {"type": lambda text: text.split(",")}
    parser.add_argument("--traces", **listed, help=f"of {', '.join((*DRAWN, *MOONCAKE))}")  # type: ignore[arg-type]
    parser.add_argument("--policies", help="separated by spaces; with settings: name:key=value,key=value")
    parser.add_argument("--loads", default="0.5,0.8,0.95", help="shares of least_load's capacity")
    parser.add_argument("--settings", default="usual", help=f"of {', '.join(OTHERS)}; all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=1500, help="measured in a run, about")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="add every run's figures to this file, a line each")
    for name in MOONCAKE:
        parser.add_argument(f"--{name}", type=Path, help=f"Mooncake's {name}_trace.jsonl")
    asked = parser.parse_args()
    asked.loads = [float(load) for load in asked.loads.split(",")]
    asked.policies = asked.policies.split() if asked.policies else POLICIES
    asked.settings = list(OTHERS) if asked.settings == "all" else asked.settings.split(",")
    paths = {name: getattr(asked, name) for name in MOONCAKE}
    asked.traces = asked.traces or [*DRAWN, *(name for name, path in paths.items() if path)]
    for trace in asked.traces:
        if trace not in DRAWN and not paths.get(trace):
            parser.error(
                f"no trace {trace}, or no --{trace} PATH" if trace in MOONCAKE else f"no trace {trace}"
            )
    return asked


def _scenes(asked: argparse.Namespace) -> Iterator[Scene]:
    for name in asked.settings:
        for trace in asked.traces:
            path = getattr(asked, trace) if trace in MOONCAKE else None
            yield scene(trace, name, OTHERS[name], asked.requests, path)


def _show(one: Scene, capacity: float, seeds: Sequence[Sequence[Row]]) -> None:
    setting = one.setting
    print(
        f"\n### {one.trace}, {one.setting_name}\n\n{setting.engines} engines; 100 % load is {capacity:.3g} "
        f"talks/s, {_rate(seeds):.3g} requests/s at the last load below; TTFT within {setting.ttft_s:g} s "
        f"and twice the bare prefill, {setting.tpot_ms:g} ms a token; {len(seeds)} seeds."
    )
    for line in table(seeds):
        print(line)
    worse = list(behind(seeds))
    print(
        "\n" + ("\n".join(f"- {line}" for line in worse) if worse else "No policy is ahead of prefix_cost.")
    )
    sys.stdout.flush()


def _rate(seeds: Sequence[Sequence[Row]]) -> float:
    return max(measures.requests_per_s for rows in seeds for _, _, measures in rows)


def _keep(path: Path, one: Scene, capacity: float, seeds: Sequence[Sequence[Row]]) -> None:
    with path.open("a", encoding="utf-8") as out:
        for seed, ran in enumerate(seeds):
            for load, policy, measures in ran:
                told = {"trace": one.trace, "setting": one.setting_name, "capacity": capacity, "seed": seed}
                out.write(json.dumps({**told, "load": load, "policy": policy, **asdict(measures)}) + "\n")


if __name__ == "__main__":
    main()
