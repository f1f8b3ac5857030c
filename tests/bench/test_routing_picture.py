"""The picture of a run's figures: every policy is there, and further right is longer."""

import re
from dataclasses import fields
from xml.etree import ElementTree

from bench.routing.measures import Measures
from bench.routing.picture import COLUMNS, WIDTH, dots, picture
from bench.routing.plans import HITS, ORACLE

FIGURES = {field.name: 0.5 for field in fields(Measures)}


def took(seconds: float) -> Measures:
    return Measures(**{**FIGURES, "ttft_p90_s": seconds})


def test_each_policy_has_a_row_and_each_load_a_dot_at_its_seconds() -> None:
    means = {"prefix_cost": 0.2, "least_load": 3.0, ORACLE: 0.1, HITS: 9.0}
    seeds = {
        seed: {
            (load, policy): took(mean * load * (0.5 + seed))
            for policy, mean in means.items()
            for load in (0.5, 1.0)
        }
        for seed in (0, 1)
    }
    shown = dots(seeds)
    assert list(shown) == [ORACLE, "prefix_cost", "least_load"], "best first, and the oracle before all"
    assert shown["least_load"] == [(0.5, 1.5), (1.0, 3.0)]
    drawn = ElementTree.fromstring(picture({"chats & more": shown}))
    words = ["".join(one.itertext()) for one in drawn.iter() if one.tag.endswith("}text")]
    assert any("chats & more" in one for one in words) and set(shown) <= set(words)
    circles = [one for one in drawn.iter() if one.tag.endswith("}circle")]
    told = sorted(
        (float(one.attrib["cx"]), float(re.findall(r"([\d.]+) s", "".join(one.itertext()))[0]))
        for one in circles
    )
    assert [seconds for _, seconds in told] == sorted(seconds for _, seconds in told)
    assert len(told) == 6


def test_an_axis_has_two_ticks_at_least_and_no_heading_leaves_the_picture() -> None:
    narrow = {"prefix_cost": [(0.5, 3.4), (0.95, 7.5)]}
    drawn = ElementTree.fromstring(picture({"a trace with a long name": narrow, "another": narrow}))
    texts = [one for one in drawn.iter() if one.tag.endswith("}text")]
    ticks = [one for one in texts if re.fullmatch(r"[\d.]+", one.text or "")]
    assert len(ticks) >= 4
    heads = [one for one in texts if one.attrib["class"] == "head"]
    assert [one.attrib["text-anchor"] for one in heads] == ["end", "end"]
    assert all(float(one.attrib["x"]) <= WIDTH / COLUMNS for one in heads), "each within its panel"
