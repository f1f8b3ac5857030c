"""What do an experiment's log, its replay and its index cost, at a million pairs?

    python -m bench.store                                 a million pairs, one candidate
    python -m bench.store --pairs 100000 --candidates 3

A pair is control's, each candidate's and production's answer of 200 tokens with strips, five output scores, a
hundred pairs a second.  Told are CPU seconds of this process, not the clock's, so that what other programs do
enters little.  Of what is live, pairs of answers that were read: timing, every comparison, log and trial.
"""

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from analysis.course import Course
from analysis.index import BY, Index
from analysis.measure import AnswerMeasure, PairRecord, Read, measured, transcript_of
from analysis.ranking import Trial
from analysis.replay import replay
from analysis.report import to_json
from analysis.spec import ExperimentSpec
from analysis.store import NAME, Header, LogReader, LogWriter
from analysis.strip import strip_of
from bench.parsing import CHAT, chat, read, spoken, timed
from bench.procfs import rss_kb

CALIBRATION = 601
GAP_NS = 10_000_000
SCORES = {"exact_match": 1.0, "first_divergence": 0.0, "edit_similarity": 1.0, "length_ratio": 0.0}
TOKENS = 200
LIVE_SPANS = 5
BEGIN_NS = 10**12
SPAN = 4096  # pairs, of which so many are counted together that each span has the same share of that


def spec_of(candidates: int) -> ExperimentSpec:
    names = tuple(f"candidate-{n}" for n in range(candidates))
    return ExperimentSpec("bench", "fleet", names, calibration_s=5.0, slo_ttft_ms=400.0)


def answer(arm: str, at_ns: int, rng: Random, twin: int = 0) -> AnswerMeasure:
    scale = rng.lognormvariate(0.0, 0.2)
    ttft, itl = 180.0 * scale, 20.0 * scale
    return AnswerMeasure(
        arm=arm, twin=twin, order=rng.randrange(9), sent_ns=at_ns + rng.randrange(10**6),
        end_ns=at_ns + 4 * 10**9, status=200, fault=None, streamed=True, ttft_ms=ttft,
        ttft_user_ms=ttft + 1.0, itl_ms=itl, tpot_ms=itl, e2e_ms=ttft + TOKENS * itl, prompt_tokens=900,
        completion_tokens=TOKENS, cached_tokens=400, token_source="usage", finish_reason="stop",
        arrival_tokens=1.0, strip=_STRIPS[rng.randrange(len(_STRIPS))],
    )  # fmt: skip


_STRIPS = [strip_of([Random(n).lognormvariate(3.0, 0.3) for _ in range(TOKENS)]) for n in range(64)]


def pairs(spec: ExperimentSpec, count: int) -> Iterator[PairRecord]:
    """Made one by one, so that no million of them is held."""
    rng = Random(1)
    for number in range(count):
        at_ns = BEGIN_NS + number * GAP_NS
        calibrates = number < CALIBRATION
        arms = [("control", 0), *((name, 0) for name in spec.candidates)]
        arms += [("control", 1)] if calibrates else []
        compared = ("control",) if calibrates else spec.candidates
        yield PairRecord(
            experiment=spec.name, id=f"{number:08x}", phase="calibration" if calibrates else "live",
            at_ns=at_ns, received_ns=at_ns, root=number // 3, turn=number % 3,
            answers=tuple(answer(arm, at_ns, rng, twin) for arm, twin in arms),
            production=answer("production", at_ns, rng),
            outputs={arm: {**SCORES, "finish_reason": float(rng.random() > 0.01)} for arm in compared},
            production_sent_ns=at_ns, compared_tokens=dict.fromkeys(compared, float(TOKENS)),
            partings=dict.fromkeys(compared, ((800, 800, 800),)),
        )  # fmt: skip


class Cpu:
    """What the CPU did for us meanwhile, in `seconds`."""

    def __enter__(self) -> "Cpu":
        gc.collect()
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began


def written(path: Path, spec: ExperimentSpec, count: int) -> float:
    """The CPU seconds that appending took; making the pairs is left out."""
    writer = LogWriter(path, Header(1, spec))
    writer.open()
    spent = 0.0
    for batch in batched(pairs(spec, count), 10_000):
        with Cpu() as took:
            for record in batch:
                writer.append("pair", record)
        spent += took.seconds
    writer.close()
    return spent


def batched(records: Iterator[PairRecord], size: int) -> Iterator[list[PairRecord]]:
    while batch := list(islice(records, size)):
        yield batch


def recomputed(path: Path) -> Trial:
    past = LogReader(path)
    trial = Trial(past.header.spec, past.header.epoch)
    replay(past, trial)
    return trial


def heard(arm: str, words: Sequence[str], rng: Random) -> Read:
    """An answer that streamed these words, a token each, and was read; at a pace of its own."""
    at_ns, reads = BEGIN_NS + int(rng.lognormvariate(19.0, 0.2)), []
    for data in chat(list(words), usage=True):
        at_ns += int(rng.lognormvariate(16.8, 0.3))
        reads.append([at_ns, data])
    said = {
        "arm": arm, "twin": 0, "order": rng.randrange(9), "status": 200, "ending": "complete", "reads": reads,
        "sent_ns": BEGIN_NS, "head_ns": BEGIN_NS + 1, "end_ns": at_ns,
    }  # fmt: skip
    return said, transcript_of(said, CHAT, BEGIN_NS)


def parted(same: float, candidates: Sequence[str], seed: int) -> tuple[list[Read], Read]:
    """The arms' answers, the candidates' alike for the first share of the control's, and production's."""
    rng, words = Random(seed), spoken(TOKENS, seed)
    kept = words[: round(same * TOKENS)]
    others = [kept + spoken(TOKENS - len(kept), rng.randrange(1 << 30)) for _ in candidates]
    arms = [
        heard(name, said, rng) for name, said in zip(("control", *candidates), (words, *others), strict=True)
    ]
    return arms, heard("production", words, rng)


def live(folder: Path, spec: ExperimentSpec, same: float) -> float:
    """Pairs a second that one core keeps: read answers in; timing, comparisons, log and trial.

    `same`: so much of the candidates' answers is the control's.  The median of spans.
    """
    kinds = [parted(same, spec.candidates, seed) for seed in range(64)]
    again = {**heard("control", [], Random(0))[0], "twin": 1}
    course = Course(
        spec, folder, measured=lambda frame: measured(frame, frame["read"], frame["shown"]), now_ns=lambda: 0
    )
    course.load()
    spans = []
    for begin in range(0, LIVE_SPANS * SPAN, SPAN):
        frames = [
            frame_of(number, spec, kinds[number % len(kinds)], again) for number in range(begin, begin + SPAN)
        ]
        with Cpu() as took:
            for frame in frames:
                course.pair(frame)
        spans.append(took.seconds)
    course.close()
    return SPAN / sorted(spans[1:])[(len(spans) - 1) // 2]  # the first has the calibration


def frame_of(
    number: int, spec: ExperimentSpec, said: tuple[list[Read], Read], again: Mapping[str, Any]
) -> dict[str, Any]:
    """A pair of answers that were read."""
    arms, shown = said
    calibrates = number < CALIBRATION
    at_ns = BEGIN_NS + number * GAP_NS
    return {
        "experiment": spec.name, "id": f"{number:08x}", "phase": "calibration" if calibrates else "live",
        "at_ns": at_ns, "received_ns": at_ns, "root": number // 3, "turn": number % 3, "answers": [],
        "read": [*arms, (again, arms[0][1])] if calibrates else arms, "shown": shown,
    }  # fmt: skip


def reading() -> float:
    """Microseconds to read an answer's stream of 200 tokens, a token; the best of some."""
    reads = chat(spoken(TOKENS, 1), usage=True)
    return min(timed(lambda: read(CHAT, reads), 20, 20)) / TOKENS


def main() -> None:
    """Print the figures."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--pairs", type=int, default=1_000_000)
    given.add_argument("--candidates", type=int, default=1)
    asked = given.parse_args()
    spec = spec_of(asked.candidates)
    print(f"{asked.pairs} pairs, {asked.candidates} candidate(s); CPU seconds", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        seconds = written(path, spec, asked.pairs)
        print(f"  appended in {seconds:.1f} s, {path.stat().st_size / 1e6:.0f} MB", flush=True)
        judged(path)
        queried(path, asked.pairs)
        for name, same in (
            ("are the same", 1.0),
            ("part in the middle", 0.5),
            ("differ from the start", 0.0),
        ):
            rate = live(Path(folder) / f"live {same}", spec, same)
            print(f"  live, once they are read, answers that {name}: {rate:.0f} pairs a second", flush=True)
    print(f"  reading an answer of {TOKENS} tokens: {reading():.2f} µs a token")


def judged(path: Path) -> None:
    """The whole log into a ranking."""
    before = rss_kb(os.getpid())
    with Cpu() as took:
        trial = recomputed(path)
    more = (rss_kb(os.getpid()) - before) / 1e3
    print(f"  recomputed in {took.seconds:.1f} s, {more:.0f} MB more held", flush=True)
    with Cpu() as took:
        trial.ranking(at_hand=True)
    print(f"  a query while no percentile is made: {took.seconds * 1e3:.0f} ms", flush=True)
    parts = []
    while True:
        with Cpu() as took:
            if not trial.prepare():
                break
        parts.append(took.seconds * 1e3)
    print(f"  percentiles in {len(parts)} parts between queries, {max(parts, default=0):.0f} ms at most")
    shown = []
    for when in ("once they are made", "again"):
        with Cpu() as took:
            shown.append(trial.ranking(at_hand=True))
        print(f"  a query {when}: {took.seconds * 1e3:.0f} ms", flush=True)
    assert to_json(shown[0]) == to_json(shown[1]) == to_json(recomputed(path).ranking())


def queried(path: Path, count: int) -> None:
    """The index, and what is asked of it."""
    index = Index(path)
    with Cpu() as took:
        index.catch_up()
    size = sum(place.stat().st_size for place in path.parent.glob("*.sqlite"))
    print(f"  indexed in {took.seconds:.1f} s, {size / 1e6:.0f} MB", flush=True)
    for by in BY:
        with Cpu() as took:
            index.most(by, 10)
        print(f"  the ten pairs with the largest {by}: {took.seconds * 1e3:.1f} ms", flush=True)
    with Cpu() as took:
        found = index.pair(f"{count // 2:08x}")
    assert found is not None
    print(f"  one pair: {took.seconds * 1e3:.1f} ms", flush=True)
    index.close()


if __name__ == "__main__":
    main()
