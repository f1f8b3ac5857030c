"""What `shadowlane workload` does: fit, generate, compare, export and sweep."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from workload import fidelity, sweep
from workload.asks import CHAT
from workload.figures import Seen
from workload.formats import Recording, read, spread
from workload.generate import generate
from workload.model import Model, fit
from workload.outputs import writable
from workload.remembered import as_asked, compare_remembered, remembered
from workload.replay import HttpSender
from workload.replaying import say, session, settings_of, slo_of
from workload.row import Row, to_line
from workload.scenario import Plan, rescheduled
from workload.talks import talks
from workload.traces import TraceError

_AGAIN_ROWS = 60_000  # in further makings, where a figure is off: the more rows, the less is chance
_AGAIN = (3, 9)


def run_fit(given: argparse.Namespace) -> int:
    """A recording to a model, and how alike what it makes is."""
    writable([given.out], read=given.file)
    found = _even(read(given.file, block_tokens=given.block_tokens))
    recorded = Seen(found.rows, found.block_tokens)
    model = msgspec.structs.replace(fit(found.rows, found.block_tokens), figures=remembered(recorded))
    text = msgspec.json.format(msgspec.json.encode(model), indent=1) + b"\n"
    given.out.write_bytes(text)
    say(f"{given.out}: {len(text)} bytes for {model.requests} requests; below, traffic made from it")
    made = _makings(model, _plan(given, model), given.seed)
    first = next(made)
    further = max(_AGAIN[0], min(_AGAIN[1], _AGAIN_ROWS // max(1, len(first.rows))))
    compared = fidelity.compare(recorded, first)
    told = fidelity.explained(
        compared, recorded, first, again=lambda: islice(made, further), scenario=given.scenario
    )
    sys.stdout.write(fidelity.table(told) + "\n")
    return 0


def _makings(model: Model, plan: Plan, seed: int) -> Iterator[Seen]:
    """Traffic of a model, over and over, each time drawn anew."""
    return (Seen(generate(model, plan, Random(one)), model.block_tokens) for one in count(seed))


def run_generate(given: argparse.Namespace) -> int:
    """A model, or a recording's own conversations, to traffic, and how alike they are."""
    writable([given.out], read=[given.file])
    rng = Random(given.seed)
    if given.file.suffix == ".json" and (model := _model(given.file)) is not None:
        rows, size = generate(model, _plan(given, model), rng), model.block_tokens
        recorded, made = model.requests, Seen(rows, size)
        compared = compare_remembered(model.figures, made)
    else:
        found = _even(read([given.file]))
        begins = [talk.rows[0].timestamp / 1e3 for talk in talks(found.rows, found.block_tokens)]
        span_s = max(1e-3, begins[-1] - begins[0]) if begins else 1.0
        rate = given.rate or max(1e-6, len(begins) / span_s)
        plan = Plan(given.scenario, given.seconds or span_s, rate, day_s=given.day)
        rows, size = rescheduled(found.rows, found.block_tokens, plan, rng), found.block_tokens
        recorded, made = len(found.rows), Seen(rows, size)
        compared = fidelity.compare(Seen(found.rows, size), made)
    _write(given.out, rows, size)
    say(f"{given.out}: {len(rows)} requests over {rows[-1].timestamp / 1e3 if rows else 0:.1f} s")
    if not compared:
        say("the model remembers no figures to compare with: `shadowlane workload fit` makes one that does")
        return 0
    is_when_asked = given.scenario != "recorded" or given.rate is not None or given.seconds is not None
    told = as_asked(compared, is_when_asked=is_when_asked, recorded=recorded, made=len(rows))
    sys.stdout.write(fidelity.table(told) + "\n")
    return 0


def run_compare(given: argparse.Namespace) -> int:
    """Two files, side by side."""
    one, other = read([given.one]), read([given.other])
    names = (given.one.name[:13], given.other.name[:13])
    seen = [Seen(found.rows, found.block_tokens) for found in (one, other)]
    sys.stdout.write(fidelity.table(fidelity.compare(*seen), names) + "\n")
    return 0


def run_export(given: argparse.Namespace) -> int:
    """Recordings as one plain file in the order of instants, as other tools want it."""
    writable([given.out], read=given.file)
    found = read(given.file, block_tokens=given.block_tokens)
    first_ms = found.rows[0].timestamp if found.rows else 0.0
    rows = [msgspec.structs.replace(row, timestamp=round(row.timestamp - first_ms, 3)) for row in found.rows]
    _write(given.out, rows, found.block_tokens)
    say(f"{given.out}: {len(rows)} requests; blocks of {found.block_tokens} tokens")
    return 0


def run_sweep(given: argparse.Namespace) -> int:
    """Rising load, a table, and the most that held."""
    kinds: list[tuple[sweep.Load, list[float]]] = [
        ("concurrency", given.concurrency),
        ("rate", given.rates),
        ("depth", given.depths),
    ]
    asked = [(kind, loads) for kind, loads in kinds if loads]
    if not asked:
        raise ValueError("say which load: --concurrency 1,2,4 or --rates 1,2,4 or --depths 8,16,32")
    if given.shared_tokens > min(given.prompt_tokens):
        shortest = min(given.prompt_tokens)
        raise ValueError(f"--shared-tokens: expected at most {shortest:g}, which the shortest prompt has")
    writable([given.json])
    curves: list[dict[str, Any]] = []
    failed = False
    for kind, loads in asked:
        for prompt in given.prompt_tokens:
            for output in given.output_tokens:
                lengths = sweep.Lengths(int(prompt), int(output), given.shared_tokens)
                points = asyncio.run(_points(given, kind, loads, lengths))
                sys.stdout.write(f"\n{prompt:g} prompt tokens, {output:g} output tokens\n")
                sys.stdout.write(sweep.table(kind, points) + "\n")
                sys.stdout.write(sweep.said(kind, points, given.share) + "\n")
                failed |= sweep.is_dead(points)
                curves.append(sweep.curve(kind, lengths, points, slo=slo_of(given), share=given.share))
                if given.json is not None:
                    given.json.write_text(json.dumps({"curves": curves}, indent=1) + "\n")
    return 1 if failed else 0


async def _points(
    given: argparse.Namespace, kind: sweep.Load, loads: list[float], lengths: sweep.Lengths
) -> list[sweep.Point]:
    settings, names, rng = settings_of(given, "recorded"), count(1), Random(given.seed)
    made: list[sweep.Point] = []
    async with session() as http:
        sender = HttpSender(http, settings, clock=time.monotonic)
        await sender.learn(CHAT, settings.model)
        for load in loads:
            one = await sweep.point(
                kind,
                load,
                lengths,
                sender.send,
                seconds=given.seconds,
                slo=slo_of(given),
                share=given.share,
                rng=rng,
                clock=time.monotonic,
                names=names,
                most_open=given.most_open,
            )
            made.append(one)
    return made


def _plan(given: argparse.Namespace, model: Model) -> Plan:
    return Plan(
        given.scenario,
        given.seconds or model.seconds,
        given.rate or model.rate,
        model.burstiness,
        model.hours,
        given.day,
    )


def _even(found: Recording) -> Recording:
    if not found.bucketed:
        return found
    return Recording(found.kind, spread(found.rows), found.block_tokens, found.timed, bucketed=False)


def _model(path: Path) -> Model | None:
    """The model in a file; None where it is another kind of JSON."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    try:
        return msgspec.json.decode(content, type=Model)
    except msgspec.ValidationError as error:
        if content.lstrip()[:1] == b"[":
            return None
        raise TraceError(f"{path}: not a model of traffic: {error}") from None
    except msgspec.DecodeError as error:
        raise TraceError(f"{path}: not JSON: {error}") from None


def _write(path: Path, rows: list[Row], block_tokens: int) -> None:
    path.write_bytes(b"".join(map(to_line, rows)))
    stem = path.name.partition("-")[0].partition(".")[0]
    beside = path.with_name(stem + ".json")
    if not beside.exists():
        beside.write_bytes(msgspec.json.encode({"schema": 1, "block_tokens": block_tokens}) + b"\n")
