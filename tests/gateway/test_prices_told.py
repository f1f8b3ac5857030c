"""Prices in the configuration reach the experiments that run; a reload changes them without a new epoch."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from analysis.board import Board
from analysis.cost.prices import ArmPrice, Prices
from analysis.course import Course
from config.complaint import ConfigError
from config.load import load
from gateway.processes.compose import compose
from gateway.processes.fixed import fixed
from gateway.processes.handover import analysis_from_json, to_json
from tests.analysis.cost.recordings import PRICES
from tests.analysis.trials import SPEC, records

TEXT = """
fleets: [{model: llama, engines: [http://10.0.0.5:8000]}]
prices: {currency: EUR, gpus: {H200: 3.5}, arms: [{name: fp8, per_hour: 4.2, gpus: 2}]}
"""


def loaded(folder: Path, text: str) -> Any:
    (folder / "shadowlane.yaml").write_text(text)
    return load(folder / "shadowlane.yaml", {}, {})


def test_they_are_told_to_the_analysis_as_a_price_file_would_say_them(tmp_path: Path) -> None:
    config = loaded(tmp_path, TEXT)
    spec = compose(config, secret=b"s" * 32, run_dir=str(tmp_path), version="1").analysis
    told = analysis_from_json(to_json(spec)).prices
    assert told == Prices("prices in the configuration", "EUR", {"H200": 3.5}, {"fp8": ArmPrice(4.2, 2)})
    other = loaded(tmp_path, TEXT.replace("3.5", "2.5"))
    assert fixed(config, other, "shadowlane.yaml") == []


def test_a_price_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"shadowlane\.yaml:3: prices\.gpus\.H200: .*above 0"):
        loaded(tmp_path, TEXT.replace("3.5", "-3.5"))


def test_a_change_of_prices_changes_the_figures_and_neither_epoch_nor_count(tmp_path: Path) -> None:
    def course(prices: Prices | None) -> Course:
        taken = iter(records(400))
        return Course(SPEC, tmp_path, measured=lambda _: next(taken), now_ns=lambda: 0, prices=prices)

    def withheld(ranking: dict[str, Any]) -> str:
        why: str = ranking["cost"]["arms"]["control"]["per_hour"]["withheld"]
        return why

    async def run() -> None:
        first = course(None)
        board = Board("1", [first], lambda *_, **__: None)
        await board.load()
        for _ in range(601):
            first.pair({})
        before, version = first.ranking(), first.version
        assert withheld(before).startswith("no prices are known")
        await board.renew([course(PRICES)], ())
        after = await board.ranking(SPEC.name)
        assert after is not None and withheld(after).startswith("its GPUs are not known")
        assert board.rank_version(SPEC.name) == version + 1
        assert {k: v for k, v in after.items() if k != "cost"} == {
            k: v for k, v in before.items() if k != "cost"
        }
        await board.renew([course(PRICES)], ())
        assert board.rank_version(SPEC.name) == version + 1
        await board.finish(5.0)

    asyncio.run(run())
