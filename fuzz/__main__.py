"""A bounded run of one target under atheris, or of all: `python -m fuzz [TARGET ...] [--inputs N]`.

Each target runs in a process of its own.  A crash, an input that takes more than five seconds or a process
above half a gigabyte ends it with an error and leaves the input in `.fuzz/crashes/`.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz.seeds import seeds, words
from fuzz.targets import TARGETS

CORPUS = Path(".fuzz")


def main() -> int:
    """Run what is asked; the exit status is the number of targets that failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all when none is named")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many inputs each target gets")
    asked = parser.parse_args()
    if unknown := set(asked.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    failed = 0
    for name in asked.targets or TARGETS:
        print(f"== {name}: {asked.inputs} inputs", flush=True)
        failed += bool(_run(name, asked.inputs))
    return failed


def _run(name: str, inputs: int) -> int:
    corpus, crashes = CORPUS / name, CORPUS / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    for at, seed in enumerate(seeds(name)):
        (corpus / f"seed-{at}").write_bytes(seed)
    with tempfile.NamedTemporaryFile("w", suffix=".dict") as dictionary:
        for word in words(name):
            dictionary.write('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n')
        dictionary.flush()
        options = [
            f"-runs={inputs}", "-timeout=5", "-rss_limit_mb=512", "-max_len=400", f"-dict={dictionary.name}",
            f"-artifact_prefix={crashes}/{name}-", "-print_final_stats=1", "-verbosity=1", "-seed=1",
        ]  # fmt: skip
        return subprocess.run(
            [sys.executable, "-m", "fuzz.one", name, *options, str(corpus)], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
