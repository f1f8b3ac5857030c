"""What `shadowlane replay` and `shadowlane workload` take, and who does it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workload.traces import TraceError
from workload.typed import above_zero, count, count_or_none, counts, loads, share, zero_or_more

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
_WORKLOAD = """\
Traffic as a model, traffic from a model, and how much of it a server bears.

  shadowlane workload fit recordings --out traffic.json
  shadowlane workload generate traffic.json --scenario flash --seconds 600 --out flash.jsonl
  shadowlane workload compare recordings flash.jsonl
  shadowlane workload export recordings --out plain.jsonl
  shadowlane workload forget recordings --id 5b1c0a5e
  shadowlane workload sweep --to http://10.0.1.1:8000 --model llama --concurrency 1,2,4,8,16 --slo-ttft-ms 500
"""
_FORGET = """\
Take requests out of recordings again, by their ids (x-request-id): their rows are gone, and of later turns of
their conversations, which repeat what was said, the text is.  Or take all text out and leave the figures.

  shadowlane workload forget recordings --id 5b1c0a5e --id 77f0c2d1
  shadowlane workload forget recordings --text --days 7

Files that a running `shadowlane record` writes are left to it: it is told, does it, and this waits for it.
Disk space is freed, not overwritten.

Exit status 0: done.  1: who records has not done it yet; it will.  2: a file or what was typed is wrong.
"""
_GENERATE = """\
Make traffic of a model, or of a recording's own conversations, by a scenario:

  recorded   arrivals at the recorded rate and burstiness
  steady     as a metronome
  flood      all at once
  endurance  Poisson, for as long as --seconds says
  daily      Poisson, its rate by the hour of the day
  flash      Poisson, and ten times as much in the fifth tenth of the time

What is made is replayed by `shadowlane replay`.
"""


def main(argv: Sequence[str]) -> int:
    """Run one command and give its exit status.  The user's mistakes end as a line on stderr."""
    given, unknown = parser().parse_known_args(argv)
    if unknown:
        given.parser.error(f"unrecognized arguments: {' '.join(unknown)}")  # with the usage of this command
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
    inside = command(commands, "workload", _WORKLOAD).add_subparsers(
        dest="what", metavar="WHAT", required=True
    )
    _workload(inside)
    return root


def command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    """One command's parser, its text as it stands."""
    made: argparse.ArgumentParser = commands.add_parser(
        name, description=text, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.set_defaults(parser=made)
    return made


def _replay(made: argparse.ArgumentParser) -> None:
    from workload.replaying import run

    add = made.add_argument
    add("file", nargs="+", type=Path, metavar="FILE", help="files, or folders of recordings")
    sends_to(made)
    add("--speed", type=above_zero, default=1.0, metavar="X", help="times as fast (%(default)s)")
    add(
        "--rate",
        type=above_zero,
        metavar="R",
        help="arrivals a second, for files that tell no instants (1)",
    )
    add("--requests", type=count, metavar="N", help="the first N only")
    add(
        "--seconds",
        type=above_zero,
        metavar="S",
        help="what arrives in the first S seconds of the schedule only",
    )
    add("--as-recorded", action="store_true", help="Mooncake's instants as they are: a burst every 3 s")
    add(
        "--block-tokens",
        type=count,
        metavar="N",
        help="tokens that one of hash_ids stands for (found out)",
    )
    add("--seed", type=int, default=0, metavar="N", help="of arrivals that are made up (%(default)s)")
    made.set_defaults(run=run)


def sends_to(made: argparse.ArgumentParser, *, rows: bool = True) -> None:
    """What everything takes that sends requests and reports on them."""
    add = made.add_argument
    add("--to", required=True, metavar="URL", help="the server")
    add("--model", metavar="NAME", help="the model's name there (the recorded one)")
    add("--api-key", metavar="KEY", help="sent as a bearer token; $SHADOWLANE_REPLAY_KEY otherwise")
    add("--ignore-eos", action="store_true", help="have the server answer exactly as long as recorded")
    add(
        "--most-open",
        type=count,
        default=4096,
        metavar="N",
        help="more open requests are shed (%(default)s)",
    )
    add("--timeout", type=above_zero, default=600.0, metavar="S", help="of one request (%(default)s)")
    add("--slo-ttft-ms", type=above_zero, metavar="MS", help="for goodput")
    add("--slo-tpot-ms", type=above_zero, metavar="MS", help="for goodput")
    add("--slo-e2e-ms", type=above_zero, metavar="MS", help="for goodput")
    if rows:
        add(
            "--history",
            choices=("recorded", "engine", "auto"),
            default="auto",
            help="what later turns carry: what was recorded, or what this server answered; auto: the "
            "recorded text where there is text, else the server's own",
        )
        add("--json", type=Path, metavar="OUT", help="write the figures as JSON")
        add("--out", type=Path, metavar="OUT", help="write each request as a row, as a recording has it")


def _workload(commands: Any) -> None:
    from workload import forgetting, modelling
    from workload.scenario import SCENARIOS

    def planned(made: argparse.ArgumentParser) -> None:
        add = made.add_argument
        add(
            "--scenario", choices=SCENARIOS, default="recorded", help="when conversations begin (%(default)s)"
        )
        add("--seconds", type=above_zero, metavar="S", help="how long (as long as the recording)")
        add("--rate", type=above_zero, metavar="R", help="conversations a second (the recorded rate)")
        add(
            "--day",
            type=above_zero,
            default=86_400.0,
            metavar="S",
            help="how long a day of `daily` is (%(default)s)",
        )
        add("--seed", type=int, default=0, metavar="N", help="of all that is drawn (%(default)s)")

    made = command(commands, "fit", "Fit a model to recorded traffic and say how alike its traffic is.")
    made.add_argument("file", nargs="+", type=Path, metavar="FILE", help="files, or folders of recordings")
    made.add_argument("--out", type=Path, required=True, metavar="MODEL", help="the model, a small JSON file")
    made.add_argument(
        "--block-tokens", type=count, metavar="N", help="tokens that one of hash_ids stands for"
    )
    planned(made)
    made.set_defaults(run=modelling.run_fit)

    made = command(commands, "generate", _GENERATE)
    made.add_argument("file", type=Path, metavar="MODEL_OR_RECORDING")
    made.add_argument("--out", type=Path, required=True, metavar="OUT", help="rows, as a recording has them")
    planned(made)
    made.set_defaults(run=modelling.run_generate)

    made = command(commands, "compare", "The same figures of two files, and how far they are apart.")
    made.add_argument("one", type=Path, metavar="ONE")
    made.add_argument("other", type=Path, metavar="OTHER")
    made.set_defaults(run=modelling.run_compare)

    made = command(
        commands, "export", "Recordings as one plain file in the order of instants, for other tools."
    )
    made.add_argument("file", nargs="+", type=Path, metavar="FILE")
    made.add_argument("--out", type=Path, required=True, metavar="OUT")
    made.add_argument(
        "--block-tokens", type=count, metavar="N", help="tokens that one of hash_ids stands for"
    )
    made.set_defaults(run=modelling.run_export)

    made = command(commands, "forget", _FORGET)
    made.add_argument("file", nargs="+", type=Path, metavar="FILE", help="files, or folders of recordings")
    made.add_argument("--id", action="append", default=[], metavar="ID", help="a request's id; repeatable")
    made.add_argument("--text", action="store_true", help="forget all text, of every request")
    made.add_argument(
        "--days", type=zero_or_more, metavar="D", help="with --text: of files older than so many days"
    )
    made.add_argument(
        "--wait", type=zero_or_more, default=60.0, metavar="S", help="for who records (%(default)s)"
    )
    made.set_defaults(run=forgetting.run)

    made = command(commands, "sweep", "Rising load of fixed lengths, and the most of it that keeps an SLO.")
    sends_to(made, rows=False)
    add = made.add_argument
    add("--concurrency", type=counts, default=[], metavar="N,N", help="users who each ask again at once")
    add("--rates", type=loads, default=[], metavar="R,R", help="requests a second, open loop")
    add("--depths", type=counts, default=[], metavar="N,N", help="requests at one instant")
    add(
        "--prompt-tokens",
        type=counts,
        default="512",
        metavar="N,N",
        help="lengths of prompts (%(default)s)",
    )
    add(
        "--output-tokens",
        type=counts,
        default="64",
        metavar="N,N",
        help="lengths of answers (%(default)s)",
    )
    add(
        "--shared-tokens",
        type=count_or_none,
        default=0,
        metavar="N",
        help="of each prompt, the same in all (%(default)s)",
    )
    add("--seconds", type=above_zero, default=10.0, metavar="S", help="of each load (%(default)s)")
    add("--share", type=share, default=0.99, metavar="S", help="that must keep the SLO (%(default)s)")
    add("--seed", type=int, default=0, metavar="N", help="of arrivals (%(default)s)")
    add("--json", type=Path, metavar="OUT", help="write the curves as JSON, each once it is whole")
    made.set_defaults(run=modelling.run_sweep)
