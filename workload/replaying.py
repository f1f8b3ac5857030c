"""What `shadowlane replay` does: a file read, sent at its instants, and the table of how it fared."""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import aiohttp
import msgspec

from workload.arrivals import poisson
from workload.asks import Ask, asks, at_speed
from workload.formats import Recording, read, spread
from workload.kinds import sendable
from workload.outputs import writable
from workload.packed import Lines, Packing
from workload.replay import HttpSender, NotServedError, Sent, Settings, open_loop
from workload.reply import Reply
from workload.results import Slo, results, table, to_map
from workload.row import Row, to_line

_PACKINGS: dict[str, Packing] = {".zst": "zstd", ".gz": "gzip"}
KEY = "SHADOWLANE_REPLAY_KEY"
_INTERRUPTED = 130
_SILENCE_S = 10.0  # after which it is said what is waited for


def run(given: argparse.Namespace) -> int:
    """Replay, print the table, and give the exit status."""
    writable([given.json, given.out], read=given.file)
    found = read(given.file, block_tokens=given.block_tokens)
    rows, left_out = sendable(found.rows)
    listed = schedule(given, replace(found, rows=rows))
    if not rows:
        paths = ", ".join(sorted(left_out))
        raise ValueError(f"{given.file[0]}: nothing to send: no text was recorded of requests to {paths}")
    if not listed:
        raise ValueError(f"{given.file[0]}: nothing to send: --requests and --seconds leave none; raise them")
    texts = sum(ask.body is not None for ask in listed)
    say(
        f"{len(listed)} requests of a {found.kind} file over {listed[-1].at_s:.1f} s, "
        f"{'with' if texts else 'without'} text; blocks of {found.block_tokens} tokens"
    )
    return send(given, listed, text=texts > 0, left_out=left_out)


def schedule(given: argparse.Namespace, found: Recording) -> list[Ask]:
    """What is sent, by what was typed."""
    rows = found.rows
    if not found.timed:
        rows = _arriving(rows, given.rate or 1.0, Random(given.seed))
    elif given.rate is not None:
        raise ValueError("--rate is for files that tell no instants; use --speed")
    if found.bucketed and not given.as_recorded:
        rows = spread(rows)
    listed = list(at_speed(asks(rows, found.block_tokens), given.speed))
    if given.seconds is not None:
        listed = [ask for ask in listed if ask.at_s < given.seconds]
    return listed if given.requests is None else listed[: given.requests]


def send(given: argparse.Namespace, listed: Sequence[Ask], *, text: bool, left_out: Mapping[str, int]) -> int:
    """Send these, print what came of it, write what was asked for."""
    history = given.history if given.history != "auto" else "recorded" if text else "engine"
    settings = settings_of(given, history)
    sent, not_served = Sent[Reply](), Counter[str]()
    is_whole = asyncio.run(_sent(settings, listed, given.most_open, sent, not_served))
    slo = slo_of(given)
    figures = results(
        sent.results, slo, shed=sent.shed, left_out={"no_text": left_out, "not_served": not_served}
    )
    sys.stdout.write(table(figures, slo) + "\n")
    if given.json is not None:
        given.json.write_text(json.dumps(to_map(figures), indent=1) + "\n")
    if given.out is not None:
        write_rows(given.out, sent.results)
    if not is_whole:
        say(f"interrupted: these are the {figures.requests} of {len(listed)} requests that had ended")
        return _INTERRUPTED
    return 0 if figures.ok == figures.requests else 1


def settings_of(given: argparse.Namespace, history: str) -> Settings:
    """How requests are sent, by what was typed."""
    key = given.api_key or os.environ.get(KEY)
    return Settings(
        url=given.to if "://" in given.to else f"http://{given.to}",
        model=given.model,
        history="engine" if history == "engine" else "recorded",
        ignore_eos=given.ignore_eos,
        timeout_s=given.timeout,
        headers={"Authorization": f"Bearer {key}"} if key else {},
    )


def slo_of(given: argparse.Namespace) -> Slo:
    """The bounds that were typed."""
    return Slo(given.slo_ttft_ms, given.slo_tpot_ms, given.slo_e2e_ms)


async def _sent(
    settings: Settings,
    listed: Sequence[Ask],
    most_open: int,
    into: Sent[Reply],
    not_served: Counter[str],
) -> bool:
    """Send these, but for those without text whose paths are not served; whether all were: SIGINT ends it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    # Not left to `asyncio.run`: a signal that comes just as its loop begins to wait does not wake it.
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    refused: list[str] = []
    async with session() as http:
        sender = HttpSender(http, settings, clock=time.monotonic)
        for path in dict.fromkeys(ask.path for ask in listed if ask.body is None):
            asked = (ask.model for ask in listed if ask.path == path and ask.model is not None)
            waits = (
                f"{settings.url} has not answered a first request yet; it may take {settings.timeout_s:g} s"
            )
            silence = loop.call_later(_SILENCE_S, say, f"{waits} (--timeout)")
            try:
                scale = await sender.learn(path, settings.model or next(asked, None))
            except NotServedError as error:
                refused.append(str(error))
                not_served[path] = sum(ask.path == path and ask.body is None for ask in listed)
                continue
            finally:
                silence.cancel()
            say(f"{path}: a word is {scale.per_word:.3f} tokens there, the template {scale.front:.1f}")
        served = [ask for ask in listed if ask.body is not None or ask.path not in not_served]
        if not served:
            raise ValueError("; ".join(refused))
        try:
            await open_loop(served, sender.send, clock=time.monotonic, most_open=most_open, into=into)
        except asyncio.CancelledError:
            return False
    return True


def session() -> aiohttp.ClientSession:
    """A session without a bound on connections: a bound would be a queue nobody sees."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=True)


def write_rows(file: Path, sent: Sequence[tuple[Ask, Reply]]) -> None:
    """Write what was sent as a recording has it, with this server's latencies."""
    file.unlink(missing_ok=True)
    lines = Lines(file, _PACKINGS.get(file.suffix, "none"))
    began_s = min((one.scheduled_s for _, one in sent), default=0.0)
    for ask, one in sorted(sent, key=lambda pair: pair[1].sent_s):
        lines.add(to_line(_row(ask, one, began_s)))
    lines.close()


def _row(ask: Ask, one: Reply, began_s: float) -> Row:
    return Row(
        timestamp=round((one.sent_s - began_s) * 1e3, 3),
        input_length=one.prompt_tokens or ask.prompt_tokens,
        output_length=one.tokens or ask.output_tokens,
        hash_ids=list(ask.blocks),
        id=ask.id,
        session=ask.session,
        parent=ask.after,
        model=ask.model,
        path=ask.path,
        stream=one.in_tokens,
        sampling=ask.sampling,
        cached_tokens=one.cached_tokens,
        status=one.status,
        ending=one.failure or "complete",
        ttft_ms=_ms(one.ttft_s),
        tpot_ms=_ms(one.tpot_s),
        e2e_ms=_ms(one.e2e_s),
    )


def _arriving(rows: Sequence[Row], rate: float, rng: Random) -> list[Row]:
    """Conversations at instants that are drawn; a later turn is due at once when the one before has ended."""
    gaps, begins, made = poisson(rng, rate), dict[str, float](), list[Row]()
    at_s = 0.0
    for row in rows:
        name = row.session or ""
        if name not in begins:
            begins[name] = at_s
            at_s += next(gaps)
        made.append(msgspec.structs.replace(row, timestamp=begins[name] * 1e3))
    return made


def say(line: str) -> None:
    """Tell on stderr what is going on."""
    sys.stderr.write(line + "\n")


def _ms(value_s: float | None) -> float | None:
    return None if value_s is None else round(value_s * 1e3, 3)
