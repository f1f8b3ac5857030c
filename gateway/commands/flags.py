"""What may be typed after `shadowlane`: every command, flag and help text."""

import argparse
from typing import Any

from workload.typed import above_zero, count

CHILDREN = ("_worker", "_shadow", "_analysis", "_discovery", "_events", "_recording", "_launch")
_SERVE = """\
Serve clients in front of inference engines.

Nothing but an engine is needed:
  shadowlane serve --engine http://10.0.0.5:8000

Try a candidate against a control, both on spare GPUs, with copies of the traffic:
  shadowlane serve --engine http://10.0.0.5:8000 \\
    --control http://10.0.1.1:8000 --candidate fp8=http://10.0.1.2:8000

Everything else is set in a file:
  shadowlane serve -c shadowlane.yaml

SIGTERM or Ctrl-C lets running requests finish; a second one ends at once.
"""
_RECORD = """\
Serve as `shadowlane serve` does, and write the traffic to files: lengths, instants and hashes of prompts'
blocks, in the Mooncake schema, which `shadowlane replay`, AIPerf and GuideLLM read.  No text, unless asked.

  shadowlane record --to recordings --engine http://10.0.0.5:8000
  shadowlane record --to recordings -c shadowlane.yaml --share 0.1

In a configuration the same is `record: {to: recordings}`.
"""
_CHECK = """\
Validate a configuration and ask every engine in it what it is, what it serves and what it lacks.

  shadowlane check -c shadowlane.yaml

Engines that are looked up (discover) are named, not asked.

Commands that redact texts are tried with one of ours.

Exit status 0: all is well.  1: some engine is not reachable, refuses the api_key or does not serve the model
that it is asked for, or something else that is to be used does not work.  2: the configuration is wrong, or
what it is to replay is not there.
"""
_REPORT = """\
Say what an experiment has found so far, from its log alone: the same log gives the same verdict.

  shadowlane report fp8-kv --html fp8-kv.html
  shadowlane report shadowlane-state/fp8-kv/log.msgpack --json
  shadowlane report fp8-kv --prices prices.yaml --slo ttft=450,tpot=40    (what a token costs at the SLO)
"""
_RANK = """\
Say which candidate should run, if any: gates first (a fair comparison, errors, outputs, golden requests,
SLO), then what no other beats with certainty, then your weights.  The winner is estimated again on fresh
windows.

  shadowlane rank fp8-kv --weight ttft=1 --weight tpot=2 --html decision.html
  shadowlane rank fp8-kv --fail-if 'ttft_p99>+5%' --fail-if 'errors>1%' --markdown >> "$GITHUB_STEP_SUMMARY"
  shadowlane rank fp8-kv --prices prices.yaml --slo ttft=450,tpot=40      (what a token costs at the SLO)
  shadowlane rank fp8-kv --prices prices.yaml --weight cost=2 --weight tpot=1   (and lets it decide)

A condition is a measure, < or >, and a bound; CANDIDATE: before it means one candidate alone.  Of a latency
(ttft, itl, tpot, e2e: the geometric mean; ttft_p99: a percentile) the change against the control, +5%, or
250ms; of errors and slo_met a share of answers, 1%, or points above the control's, +1%; of an output metric
its score.  It is met where the whole interval lies beyond the bound.

Exit status 0: no condition is met.  3: one is.  4: none is, and of one it cannot be said yet (0 with
--unknown-passes).  1: the log cannot be read.  2: a flag is wrong.
"""
_DIFF = """\
Look at single pairs.  Without a pair: those that differ most.  With one: its arms under one another, where
their texts part (positions and lengths: no text is kept), and when their tokens came.

  shadowlane diff fp8-kv
  shadowlane diff fp8-kv --by ttft --candidate fp8 --limit 20
  shadowlane diff fp8-kv 3f0c9b1e
"""
_EXPORT = """\
Write an experiment's pairs as a table, a row for each answer: for a notebook, or a database.

  shadowlane export fp8-kv --to pairs.parquet     (or .csv, .jsonl; Parquet needs pyarrow)
"""
_DEMO = """\
See it work without a GPU: emulated engines, a control, three candidates, live traffic, a ranking.
It ends once each candidate has a word on its time per token and on its answers; other questions may be open.

  shadowlane demo
  shadowlane demo --keep          (goes on until Ctrl-C; the page stays up)
"""
_TOP = """\
Watch the rankings of a running Shadowlane in the terminal.

  shadowlane top
  shadowlane top fp8-kv --admin http://10.0.0.2:8090
"""
_KEY = """\
Make an API key, and the entry for `keys` that knows it by its hash.  The key itself is kept nowhere.
The first line is the key, for the client alone; what follows is the entry.

  shadowlane key search-team
  shadowlane key search-team | (read -r key; cat >> entries.yaml; echo "$key")
  shadowlane key search-team --stdin < key.txt     (a key that exists already)
"""
_DEFINITIONS = """\
Ask an engine once, streamed, and say what TTFT, ITL, TPOT and E2E every tool would report of that one answer:
ours, AIPerf's, GuideLLM's, genai-bench's, inference-perf's, vLLM's and LLMPerf's.

  shadowlane definitions http://10.0.0.5:8000 --model llama

Exit status 0: it answered.  1: it did not, or not in a stream.
"""
_EXPERIMENT = """\
The kill switch: a paused experiment copies nothing, in any worker, within a second, and its arms are rid of
what was under way.  Production does not notice.  A pause by hand lasts over restarts, until it is resumed.

  shadowlane experiment pause fp8-kv --why "the GPU is needed"
  shadowlane experiment pause --all --stop-engines
  shadowlane experiment resume fp8-kv
  shadowlane experiment list

Where text_bytes has answers' texts kept, those to a request are deleted by its id (measures stay):

  shadowlane experiment forget fp8-kv --id 5b1c0a5e
  shadowlane experiment forget --all --id 5b1c0a5e --state-dir shadowlane-state      (while none runs)
"""
_EMULATE = """\
Run the embedded engine: paged, prefix-caching, continuously batching, without a GPU.
All that follows goes to it.

  shadowlane emulate --help
"""


def parser() -> argparse.ArgumentParser:
    """The whole command line.  The parsed namespace has `command` and that command's flags."""
    root = argparse.ArgumentParser(
        prog="shadowlane",
        description="A gateway in front of LLM inference engines: prefix-aware routing, copies of the\n"
        "traffic to candidate configurations, and verdicts with stated certainty.\n\n"
        "Begin with:  shadowlane demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _configured(_command(commands, "serve", "serve clients in front of engines", _SERVE))
    record = _command(commands, "record", "serve, and write the traffic to files", _RECORD)
    record.add_argument("--to", metavar="DIR", required=True, help="the folder of the recording")
    record.add_argument("--share", metavar="S", type=float, help="share of conversations to record (1)")
    record.add_argument("--text", action="store_true", help="write requests and answers, too")
    _configured(record)
    _configured(_command(commands, "check", "validate a configuration and ask its engines", _CHECK))
    _report(_command(commands, "report", "say what an experiment found, from its log", _REPORT))
    _rank(_command(commands, "rank", "say which candidate should run; a gate for CI", _RANK))
    _diff(_command(commands, "diff", "look at single pairs", _DIFF))
    export = _command(commands, "export", "write pairs as CSV, JSON Lines or Parquet", _EXPORT)
    export.add_argument(
        "log", metavar="LOG_OR_EXPERIMENT", help="a log file, its folder, or an experiment's name"
    )
    export.add_argument("--to", metavar="FILE", required=True, help="its ending says the form")
    export.add_argument("--state-dir", metavar="DIR", help="where experiments' logs are (./shadowlane-state)")
    _demo(_command(commands, "demo", "see it work without a GPU", _DEMO))
    top = _command(commands, "top", "watch the rankings in the terminal", _TOP)
    top.add_argument("experiment", nargs="?", help="only this one (all)")
    top.add_argument(
        "--admin", metavar="URL", default="http://127.0.0.1:8090", help="its admin address (%(default)s)"
    )
    _experiment(
        _command(commands, "experiment", "pause experiments, let them go on, forget texts", _EXPERIMENT)
    )
    _definitions(_command(commands, "definitions", "one answer under every tool's definitions", _DEFINITIONS))
    key = _command(commands, "key", "make an API key for a client", _KEY)
    key.add_argument("name", nargs="?", default="NAME", help="the client's name (%(default)s)")
    key.add_argument("--stdin", action="store_true", help="hash the key that is read from standard input")
    _command(commands, "replay", "send recorded traffic again", _EMULATE, add_help=False)
    _command(commands, "workload", "model traffic, and make it from the model", _EMULATE, add_help=False)
    _command(commands, "emulate", "run the embedded engine", _EMULATE, add_help=False)
    _command(
        commands,
        "version",
        "print the version",
        "Print the version, and whether it runs compiled.\n\n  shadowlane version\n",
    )
    return root


def child_parser() -> argparse.ArgumentParser:
    """The command line by which the supervisor starts its children; nobody types it."""
    child = argparse.ArgumentParser(prog="shadowlane", allow_abbrev=False)
    child.add_argument("command", choices=CHILDREN)
    child.add_argument("--supervisor", metavar="PID", type=int)
    child.add_argument("--log-level", default="info")
    child.add_argument("--log-format", default="auto")
    child.add_argument("--control", metavar="FD", type=int)
    child.add_argument("--fds", metavar="N,N", default="")
    return child


def _command(
    commands: Any, name: str, line: str, text: str, *, add_help: bool = True
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=line,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=add_help,
    )
    return made


def _configured(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("-c", "--config", metavar="FILE", help="the configuration ($SHADOWLANE_CONFIG)")
    add("--engine", metavar="URL", action="append", default=[], help="an engine of production; repeatable")
    add("--control", metavar="URL", help="a spare engine configured as production is")
    add(
        "--candidate",
        metavar="NAME=URL",
        action="append",
        default=[],
        help="a spare engine configured in the way that is tried; repeatable",
    )
    add("--sample-rate", metavar="R", help="share of conversations to copy, or auto (auto)")
    add("--listen", metavar="HOST:PORT", help="where clients connect (127.0.0.1:8080)")
    add("--admin", metavar="HOST:PORT", help="dashboard, API and metrics (127.0.0.1:8090)")
    add("--workers", metavar="N", type=int, help="processes that serve clients (1)")
    add("--state-dir", metavar="DIR", help="logs of the experiments (./shadowlane-state)")


def _report(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("log", metavar="LOG_OR_EXPERIMENT", help="a log file, its folder, or an experiment's name")
    add("--html", metavar="OUT", help="write one self-contained page")
    add("--json", action="store_true", help="print the ranking as JSON")
    _priced(command)
    add("--state-dir", metavar="DIR", help="where experiments' logs are (./shadowlane-state)")


def _rank(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("log", metavar="LOG_OR_EXPERIMENT", help="a log file, its folder, or an experiment's name")
    add("--fail-if", metavar="CONDITION", action="append", default=[], help="exit with 3 where it is met")
    add(
        "--weight",
        metavar="MEASURE=W",
        action="append",
        default=[],
        help="what counts how much: ttft, itl, tpot, e2e, cost, energy (ttft=1 tpot=1)",
    )
    add("--accept-outputs", action="store_true", help="its answers may differ from the control's")
    add("--unknown-passes", action="store_true", help="exit with 0, not 4, where a condition is unknown")
    _priced(command)
    forms = command.add_mutually_exclusive_group()
    forms.add_argument("--json", dest="form", action="store_const", const="json", help="print JSON")
    forms.add_argument(
        "--markdown", dest="form", action="store_const", const="markdown", help="for a pull request"
    )
    command.set_defaults(form="text")
    add("--html", metavar="OUT", help="write one self-contained page")
    add("--state-dir", metavar="DIR", help="where experiments' logs are (./shadowlane-state)")


def _priced(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--prices", metavar="FILE", help="what GPUs or arms cost an hour, so that tokens have a price")
    add("--slo", metavar="SLO", help="judge by ttft=MS,tpot=MS, or a limit of MLPerf's, such as llama2-70b")
    add(
        "--also",
        metavar="LOG_OR_EXPERIMENT",
        action="append",
        default=[],
        help="the same arms under another load: one curve of cost over all; repeatable",
    )


def _diff(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("log", metavar="LOG_OR_EXPERIMENT", help="a log file, its folder, or an experiment's name")
    add("pair", metavar="PAIR", nargs="?", help="one pair's id (those that differ most)")
    add(
        "--by",
        choices=("differs", "ttft", "tpot", "e2e"),
        default="differs",
        help="what is large (%(default)s)",
    )
    add("--candidate", metavar="NAME", help="of this candidate alone")
    add("--limit", metavar="N", type=count, default=10, help="how many (%(default)s)")
    add("--json", action="store_true", help="print JSON")
    add("--state-dir", metavar="DIR", help="where experiments' logs are (./shadowlane-state)")


def _definitions(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("url", metavar="URL", help="an engine, or a gateway")
    add("--model", metavar="NAME", help="the model's name, where it has to be said")
    add("--prompt", metavar="TEXT", default="Count from one to fifty.", help="what is asked (%(default)s)")
    add("--max-tokens", metavar="N", type=count, default=128, help="how long the answer may be (%(default)s)")
    add("--timeout", metavar="S", type=above_zero, default=300.0, help="seconds it may take (%(default)s)")


def _experiment(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("action", choices=("pause", "resume", "list", "forget"), help="what to do")
    add("experiment", nargs="?", help="which one")
    add("--all", action="store_true", help="all of them")
    add("--why", metavar="TEXT", default="", help="a reason, shown wherever the pause is")
    add(
        "--stop-engines", action="store_true", help="pause: end the engines launched for it, which frees GPUs"
    )
    add(
        "--id", metavar="ID", action="append", default=[], help="forget: a request's x-request-id; repeatable"
    )
    add("--state-dir", metavar="DIR", help="forget: in these logs' folders, of which no Shadowlane runs")
    add("--admin", metavar="URL", default="http://127.0.0.1:8090", help="its admin address (%(default)s)")


def _demo(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--keep", action="store_true", help="go on until Ctrl-C")
    add("--seed", metavar="N", type=int, default=0, help="of traffic and engines (%(default)s)")
    add("--seconds", metavar="S", type=above_zero, help="end after this long at most (140)")
    add("--html", metavar="OUT", default="shadowlane-demo.html", help="the report (%(default)s)")
