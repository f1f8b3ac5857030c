"""The command line: `python -m emulator --port 0 --model NAME ...`, one flag per field of EngineParams."""

import argparse
import asyncio
import dataclasses
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

import uvloop

from emulator.params import EngineParams
from emulator.server import Running, serve


def parse(argv: Sequence[str]) -> tuple[EngineParams, str, int]:
    """(params, host, port).  SystemExit with a message for bad flags."""
    parser = argparse.ArgumentParser(prog="shadowlane emulate", description="An emulated vLLM engine.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 = any, printed when ready")
    for field in dataclasses.fields(EngineParams):
        _add_flag(parser, field)
    given = vars(parser.parse_args(argv))
    host, port = given.pop("host"), given.pop("port")
    given["aliases"] = tuple(given["aliases"])
    try:
        return EngineParams(**given), host, port
    except ValueError as error:
        parser.error(str(error))


def _add_flag(parser: argparse.ArgumentParser, field: dataclasses.Field[Any]) -> None:
    flag = "--" + field.name.replace("_", "-")
    meaning = field.metadata["help"]
    if field.name == "aliases":
        parser.add_argument("--alias", dest="aliases", action="append", default=[], help=meaning)
    elif isinstance(field.default, bool):
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=field.default, help=meaning)
    else:
        kind = int if field.default is None else type(field.default)
        parser.add_argument(
            flag, type=kind, default=field.default, help=f"{meaning} (default: {field.default})"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; a JSON line on stdout says where, once it listens."""
    params, host, port = parse(sys.argv[1:] if argv is None else argv)
    try:
        uvloop.run(_run(params, host, port))
    except OSError as error:
        sys.stderr.write(f"cannot listen on {host}:{port}: {error}\n")
        return 1
    return 0


async def _run(params: EngineParams, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(params, host, port, stop, _announce)


def _announce(running: Running) -> None:
    ready: dict[str, Any] = {"port": running.port, "url": running.url}
    if running.events is not None:
        ready |= {"kv_events": running.events.endpoint, "kv_replay": running.events.replay_endpoint}
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
