"""What `shadowlane replay` and `shadowlane workload` take, and who does it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workload.traces import TraceError

_FAILED = 1
_WRONG = 2
_REPLAY = """\
Send recorded traffic to a server again, each request at its own instant (open loop), and say how it fared.

  shadowlane replay recordings --to http://10.0.1.1:8000 --model llama
  shadowlane replay trace.jsonl --to http://10.0.1.1:8000 --speed 2 --slo-ttft-ms 500 --slo-tpot-ms 50
  shadowlane replay AzureLLMInferenceTrace_conv.csv --to http://10.0.1.1:8000 --requests 500
  shadowlane replay sharegpt.json --to http://10.0.1.1:8000 --rate 2 --history engine

Reads recordings (files or their folder), Mooncake (.jsonl), Azure (.csv) and ShareGPT (.json) files.  Where
there is no text, prompts are made up that share what the recorded ones shared.

Exit status 0: all was sent and ended well.  1: some failed.  2: the file or what was typed is wrong.
"""


def main(argv: Sequence[str]) -> int:
    """Run one command and give its exit status.  The user's mistakes end as a line on stderr."""
    given = parser().parse_args(argv)
    try:
        return int(given.run(given))
    except (TraceError, ValueError) as error:
        sys.stderr.write(f"shadowlane {argv[0]}: {error}\n")
        return _WRONG
    except OSError as error:
        sys.stderr.write(f"shadowlane {argv[0]}: {error.filename or ''}: {error.strerror}\n")
        return _FAILED


def parser() -> argparse.ArgumentParser:
    """The command line of both."""
    root = argparse.ArgumentParser(prog="shadowlane", allow_abbrev=False)
    commands = root.add_subparsers(dest="command", required=True)
    _replay(command(commands, "replay", _REPLAY))
    return root


def command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """One command's parser, its text as it stands."""
    made: argparse.ArgumentParser = commands.add_parser(
        name, description=text, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    return made


def _replay(made: argparse.ArgumentParser) -> None:
    from workload.replaying import run

    add = made.add_argument
    add("file", nargs="+", type=Path, metavar="FILE", help="files, or folders of recordings")
    sends_to(made)
    add("--speed", type=float, default=1.0, metavar="X", help="times as fast (%(default)s)")
    add("--rate", type=float, metavar="R", help="arrivals a second, for files that tell no instants (1)")
    add("--requests", type=int, metavar="N", help="the first N only")
    add("--seconds", type=float, metavar="S", help="what arrives in the first S seconds of the schedule only")
    add("--as-recorded", action="store_true", help="Mooncake's instants as they are: a burst every 3 s")
    add("--block-tokens", type=int, metavar="N", help="tokens that one of hash_ids stands for (found out)")
    add("--seed", type=int, default=0, metavar="N", help="of arrivals that are made up (%(default)s)")
    made.set_defaults(run=run)


def sends_to(made: argparse.ArgumentParser) -> None:
    """What everything takes that sends requests and reports on them."""
    add = made.add_argument
    add("--to", required=True, metavar="URL", help="the server")
    add("--model", metavar="NAME", help="the model's name there (the recorded one)")
    add("--api-key", metavar="KEY", help="sent as a bearer token; $SHADOWLANE_REPLAY_KEY otherwise")
    add(
        "--history",
        choices=("recorded", "engine", "auto"),
        default="auto",
        help="what later turns carry: what was recorded, or what this server answered; auto: the "
        "recorded text where there is text, else the server's own",
    )
    add("--ignore-eos", action="store_true", help="have the server answer exactly as long as recorded")
    add("--most-open", type=int, default=4096, metavar="N", help="more open requests are shed (%(default)s)")
    add("--timeout", type=float, default=600.0, metavar="S", help="of one request (%(default)s)")
    add("--slo-ttft-ms", type=float, metavar="MS", help="for goodput")
    add("--slo-tpot-ms", type=float, metavar="MS", help="for goodput")
    add("--slo-e2e-ms", type=float, metavar="MS", help="for goodput")
    add("--json", type=Path, metavar="OUT", help="write the figures as JSON")
    add("--out", type=Path, metavar="OUT", help="write each request as a row, as a recording has it")
