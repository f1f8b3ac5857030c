"""One target in this process, with libFuzzer's own options: `python -m fuzz.one TARGET [-runs=N ...]`."""

import sys

import atheris

with atheris.instrument_imports(include=["wire", "gateway", "routing", "analysis"]):
    from fuzz.targets import TARGETS


def main() -> None:
    """Run until libFuzzer ends the process."""
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
