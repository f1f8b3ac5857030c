"""A GPU's price is found by its name, and an SLO by MLPerf's; what cannot be meant is refused."""

import pytest

from analysis.cost.presets import PRESETS, Slo, parse_slo
from analysis.cost.prices import ArmPrice, Prices, bill, price_of

GPUS = {"H200": 3.5, "H100": 2.0, "NVIDIA H100 NVL": 2.4, "A10": 0.7, "L40S": 1.1}


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("NVIDIA H200", 3.5),
        ("nvidia h200", 3.5),
        ("NVIDIA H100 80GB HBM3", 2.0),
        ("NVIDIA H100 NVL", 2.4),
        ("NVIDIA A100-SXM4-80GB", None),
        ("NVIDIA A10G", None),
        ("NVIDIA L40", None),
        (None, None),
    ],
)
def test_the_price_is_that_of_the_longest_name_that_stands_in_the_gpus_as_whole_words(
    name: str | None, price: float | None
) -> None:
    assert price_of(name, GPUS) == price


def test_gpus_of_several_kinds_add_up_and_one_without_a_price_leaves_the_arm_without() -> None:
    prices = Prices("p.yaml", "USD", GPUS)
    assert bill("a", ["NVIDIA H200", "NVIDIA H100 PCIe"], prices).per_hour == 5.5
    lacking = bill("a", ["NVIDIA H200", "NVIDIA B200"], prices)
    assert lacking.per_hour is None and "'NVIDIA B200'" in (lacking.per_hour_why or "") and lacking.gpus == 2


def test_what_was_read_counts_before_what_was_written_and_an_arms_own_price_before_its_gpus() -> None:
    prices = Prices("p.yaml", "USD", GPUS, {"a": ArmPrice(9.0, 8)})
    assert (bill("a", ["NVIDIA H200"], prices).gpus, bill("a", ["NVIDIA H200"], prices).per_hour) == (1, 9.0)
    assert bill("a", [], prices).gpus == 8


def test_slos_are_read_by_name_or_by_bounds() -> None:
    assert parse_slo("llama2-70b-interactive") == PRESETS["llama2-70b-interactive"] == Slo(450.0, 40.0)
    assert parse_slo(" ttft=300 , tpot=25.5") == Slo(300.0, 25.5)
    assert parse_slo("tpot=25") == Slo(None, 25.0)


@pytest.mark.parametrize(
    "text", ["", "llama", "ttft", "ttft=0", "ttft=inf", "itl=3", "ttft=1,ttft=2", "ttft=nan"]
)
def test_an_slo_that_cannot_be_read_is_refused_with_what_can(text: str) -> None:
    with pytest.raises(ValueError, match=r"ttft=450,tpot=40.*deepseek-r1"):
        parse_slo(text)
