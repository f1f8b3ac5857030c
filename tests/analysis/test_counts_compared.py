"""Times per token are compared where both arms' tokens are counted in the same way, and only there."""

from typing import Any

import pytest

from analysis.measure import PairRecord
from tests.analysis.trials import altered, check, named, ranked, records


def counted(control: str | None, same: str | None, **values: Any) -> dict[str, Any]:
    def change(record: PairRecord) -> PairRecord:
        return altered(altered(record, "control", token_source=control), "same", token_source=same, **values)

    return ranked(records(400, change))


def withheld(ranking: dict[str, Any], arm: str = "same") -> set[str]:
    return {latency for latency, said in named(ranking, arm)["verdicts"].items() if said["withheld"]}


@pytest.mark.parametrize("source", ["usage", "token_ids", "logprobs", "tokenizer"])
def test_counts_of_one_source_are_compared_whichever_it_is(source: str) -> None:
    def change(record: PairRecord) -> PairRecord:
        for arm in ("control", "quick", "same", "slow"):
            record = altered(record, arm, token_source=source)
        return record

    ranking = ranked(records(400, change))
    assert check(ranking, "token_source") is True and withheld(ranking) == set()


def test_a_stream_whose_chunks_were_counted_is_not_called_slower_than_one_with_usage() -> None:
    ranking = counted("usage", "chunks", tpot_ms=60.0, completion_tokens=10)
    assert withheld(ranking) == {"itl", "tpot"}
    assert named(ranking, "same")["verdicts"]["tpot"]["label"] == "UNDECIDED"
    said = next(c for c in ranking["checks"] if c["name"] == "token_source")
    assert said["detail"] == "same: tokens counted by chunks, control by usage"
    assert withheld(ranking, "quick") == set()


def test_what_comes_at_a_time_is_not_told_of_counts_made_differently() -> None:
    """Else the reader would be sent from ITL to a TPOT that is withheld."""
    ranking = counted("usage", "chunks", arrival_tokens=3.0)
    assert "token_bursts" not in named(ranking, "same")["verdicts"]["itl"]["withheld"]


def test_chunks_of_both_arms_are_no_counts_of_tokens() -> None:
    assert withheld(counted("chunks", "chunks")) == {"itl", "tpot"}


def test_one_answer_in_a_hundred_may_be_counted_otherwise() -> None:
    def few(record: PairRecord) -> PairRecord:
        return altered(record, "same", token_source="chunks") if int(record.id[1:]) % 100 == 0 else record

    assert check(ranked(records(400, few)), "token_source") is True
