"""Answers compared in meaning, by the analysis process: floor and excess, no text at rest, replayed alike."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from analysis.embedder import Embedder
from analysis.report import render_text, report, to_json
from analysis.similarity import Similarity
from analysis.spec import EmbedderSpec
from analysis.stats.windows import Windows
from analysis.store import LogReader
from tests.analysis.fleet import answer_frame
from tests.analysis.shell.embeddings import embeddings
from tests.analysis.shell.frames import SPEC, analysis, books, pair

EXPERIMENT = "/api/experiments/kv"
ASKED = replace(SPEC, similarity="letters")
SECRET, AGAIN, OTHER = "stone and rain", "rain on stones", "eee iii ooo"
CALIBRATION, LIVE = 30, 40


def said(n: int, phase: str, **words: str) -> list[Any]:
    """The n-th pair; each arm says these words."""
    kind, body = pair(n, phase)
    twins = (0, 1) if phase == "calibration" else (0,)
    answers = [
        answer_frame(arm, body["at_ns"], 20, 10, [words.get(f"{arm}{twin or ''}", SECRET)], twin=twin)
        for arm in ("control", "quick", "same")
        for twin in twins
    ]
    return [kind, {**body, "answers": answers}]


def embedder(url: str) -> EmbedderSpec:
    return EmbedderSpec("kv", url, "letters", api_key="sk-embed", timeout_s=20.0)


def test_scores_are_in_log_and_ranking_and_neither_text_nor_key_is(
    tmp_path: Path,
) -> None:
    async def run(url: str) -> bytes:
        async with (
            analysis(tmp_path, ASKED, embedders=(embedder(url),)) as running,
            running.shadow() as shadow,
        ):

            async def has(pairs: int) -> dict[str, Any]:
                """Sent no faster than it is compared, so that none is dropped."""
                ranking: dict[str, Any] = await running.until(
                    EXPERIMENT, lambda r: (r.get("similarity") or {}).get("pairs") == pairs
                )
                return ranking

            for n in range(CALIBRATION):
                await shadow.send(said(n, "calibration", control1=AGAIN))
            await has(CALIBRATION)
            for n in range(CALIBRATION, CALIBRATION + LIVE):
                await shadow.send(said(n, "live", quick=OTHER, same=AGAIN))
            await has(CALIBRATION + LIVE)
            await shadow.send(books(CALIBRATION + LIVE, CALIBRATION + LIVE))
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == CALIBRATION + LIVE)
            return (await running.get(EXPERIMENT))[1]

    with embeddings() as served:
        live = asyncio.run(run(served.url))
    log = tmp_path / "state/kv/log.msgpack"
    ranking = report(log)
    assert to_json(ranking) == live  # the log alone gives the same
    floor = ranking["candidates"][0]["outputs"]["embedding_similarity"]["floor"]
    assert 0.5 < floor < 1.0  # the control's own answers are not alike in every letter
    told = ranking["similarity"]
    assert (told["pairs"], told["dropped"], told["why"]) == (CALIBRATION + LIVE, {}, None)
    assert f"similarity of answers by letters: {CALIBRATION + LIVE} pairs" in render_text(ranking)
    at_rest = log.read_bytes()
    assert not any(word.encode() in at_rest for word in (SECRET, "stone", OTHER, "sk-embed", served.url))
    assert sum(kind == "similarity" for kind, _ in LogReader(log)) == CALIBRATION + LIVE


def test_a_server_that_is_not_there_is_told_and_everything_else_goes_on(tmp_path: Path) -> None:
    async def run(url: str) -> dict[str, Any]:
        async with (
            analysis(tmp_path, ASKED, embedders=(embedder(url),)) as running,
            running.shadow() as shadow,
        ):
            for n in range(CALIBRATION):
                await shadow.send(said(n, "calibration", control1=AGAIN))
            for n in range(CALIBRATION, 60):
                await shadow.send(said(n, "live", quick=OTHER))
            ranking: dict[str, Any] = await running.until(
                EXPERIMENT, lambda r: r["phase"] == "live" and r["similarity"]["why"] is not None
            )
            return ranking

    with socket.socket() as closed:  # bound, so that nobody else is heard there, and deaf
        closed.bind(("127.0.0.1", 0))
        ranking = asyncio.run(run(f"http://127.0.0.1:{closed.getsockname()[1]}"))
    assert ranking["similarity"]["pairs"] == 0 and set(ranking["similarity"]["dropped"]) == {"unreachable"}
    assert ranking["candidates"][0]["outputs"]["embedding_similarity"]["value"] is None
    assert "not there: it cannot be asked (" in render_text(ranking)


def test_a_candidate_is_held_against_how_alike_the_controls_own_answers_are() -> None:
    one, rng = Similarity("letters", ("same", "other"), 0.05), Random(1)

    def score(mean: float) -> float:
        return min(1.0, max(0.0, rng.gauss(mean, 0.02)))

    def add(n: int, **scores: float) -> None:
        one.add(
            {"id": f"{n}", "at_ns": n, "block": None, "scores": scores, "why": None, "dropped": {"busy": n}}
        )

    for n in range(100):
        add(n, control=score(0.9))
    assert one.shown("same")["embedding_similarity"]["floor"] == pytest.approx(0.9, abs=0.01)
    one.begin(Windows(10, 10), 0)
    for n in range(100, 1_500):
        add(n, same=score(0.9), other=score(0.7))
    same, other = (one.shown(name)["embedding_similarity"] for name in ("same", "other"))
    assert same["excess"]["lower"] < 0.0 < same["excess"]["upper"]
    assert other["excess"]["upper"] < 0.0 and other["excess"]["value"] == pytest.approx(-0.2, abs=0.02)
    assert one.show() == {"model": "letters", "why": None, "pairs": 1_500, "dropped": {"busy": 1_499}}


def test_where_nobody_is_asked_nothing_is_told_of_it() -> None:
    nobody = Similarity("", ("quick",), 0.05)
    assert nobody.show() is None and nobody.shown("quick") == {}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scores": {"quick": 1.5}, "why": None, "dropped": {}, "at_ns": 1, "block": None},
        {"scores": {"quick": "alike"}, "why": None, "dropped": {}, "at_ns": 1, "block": None},
        {"scores": {"quick": 0.5}, "why": None, "dropped": {}, "block": None},
    ],
)
def test_a_record_that_is_none_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Similarity("letters", ("quick",), 0.05).add(body)


def test_where_arms_take_turns_a_block_is_a_unit() -> None:
    one = Similarity("letters", ("quick",), 0.05)
    windows = Windows(1_000, 1_000)
    one.begin(windows, 5_000)
    for block in range(4):
        for n in range(5):
            at_ns = 7_000_000 * block + n
            scores = {"quick": 0.1 * block}
            one.add(
                {"id": f"{n}", "at_ns": at_ns, "block": block, "scores": scores, "why": None, "dropped": {}}
            )
    one.finish()
    assert windows.means("quick") == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert windows.numbers() == [5, 6, 7, 8]
    assert one.shown("quick", "switchback")["embedding_similarity"]["why"] == "4 blocks, 15 needed"


def test_no_key_is_in_a_printed_spec() -> None:
    assert "sk-embed" not in repr(embedder("http://127.0.0.1:1")) + repr(Embedder(embedder("http://x:1")))
