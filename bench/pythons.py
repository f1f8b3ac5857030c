"""Which Python is the gateway fastest on?  The rows of `bench.overhead`, one for each interpreter.

`python -m bench.pythons python3.11 /path/to/python3.14 ...`   For each one an environment with the gateway's
dependencies is made below --environments, once; it lies outside the repository.  The second table is each
one's cost over the first one's: below 1 is cheaper.
"""

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from bench import figures
from bench.overhead import TESTS, Found, costs, measured
from bench.proxies import ROOT, Shadowlane, peers
from bench.stage import LOAD_CORE, staged

_SAY_VERSION = "import platform, sys; print(platform.python_version() + sys.abiflags)"


def version(python: str) -> str:
    """Such as 3.13.0, or 3.14.2t without the global lock.  SystemExit when it does not run."""
    try:
        return subprocess.run(
            [python, "-c", _SAY_VERSION], check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{python} does not run: {error}") from error


def environment(python: str, home: Path) -> Path:
    """The interpreter of a virtual environment with what pyproject.toml lists."""
    made = home / version(python)
    own = made / "bin" / "python"
    if not (made / "ready").exists():
        dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        subprocess.run([python, "-m", "venv", "--clear", "--without-pip", str(made)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(own), "install", "--quiet"]
        subprocess.run([*pip, *dependencies], check=True)
        (made / "ready").touch()
    return own


def beside_first(found: Found, names: Sequence[str]) -> str:
    """What each costs over what the first costs, both of one round, with the interval of the median."""
    first, *others = names
    rows = [
        [name, *(str(figures.ratio(found[name, test], found[first, test])) for test in TESTS)]
        for name in others
    ]
    return figures.table([f"CPU / {first}'s [95 %]", *TESTS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=[sys.executable], metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--environments", type=Path, default=Path.home() / ".cache" / "shadowlane-bench", metavar="DIRECTORY"
    )
    given = parser.parse_args()
    interpreters = [environment(python, given.environments) for python in given.pythons]
    gateways = [Shadowlane(version(str(own)), python=str(own)).proxy() for own in interpreters]
    nginx = [peer for peer in peers()[0] if peer.name == "nginx"]
    with staged(awake=True) as stage:
        ports = stage.engines(2)
        running = [stage.start(proxy, ports) for proxy in [*nginx, *gateways]]
        os.sched_setaffinity(0, {LOAD_CORE})
        found = measured(stage, running, TESTS, given.rounds)
        print(costs(found, [one.name for one in running]))
        print(beside_first(found, [one.name for one in gateways]))


if __name__ == "__main__":
    main()
