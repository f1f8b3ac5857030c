"""Laws of what the engine says."""

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.generation import Plan, Wish, example_of, json_answer, logprob_of
from emulator.text import IM_END, Tokenizer
from tests.emulator.support import generator

TOKENIZER = Tokenizer()
PROMPTS = st.lists(st.integers(0, 400_000), min_size=1, max_size=40)


def text(plan: Plan) -> str:
    return "".join(plan.deltas)


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 300))
def test_equal_models_say_the_same_at_temperature_zero(prompt: list[int], max_tokens: int) -> None:
    one = generator(TOKENIZER, seed=1).plan(prompt, Wish(max_tokens))
    assert generator(TOKENIZER, seed=2).plan(prompt, Wish(max_tokens)) == one


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 200), st.integers(1, 200))
def test_a_smaller_limit_gives_a_beginning_of_the_same_text(prompt: list[int], a: int, b: int) -> None:
    small, large = sorted((a, b))
    maker = generator(TOKENIZER)
    short, long = maker.plan(prompt, Wish(small)), maker.plan(prompt, Wish(large))
    assert len(short.tokens) <= small
    assert long.tokens[: len(short.tokens)] == short.tokens


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 300), st.integers(0, 100), st.floats(0, 2))
def test_finish_reasons_tell_the_truth(prompt: list[int], limit: int, least: int, temperature: float) -> None:
    wish = Wish(limit, min_tokens=min(least, limit), temperature=temperature)
    plan = generator(TOKENIZER).plan(prompt, wish)
    assert len(plan.deltas) == len(plan.tokens)
    assert wish.min_tokens <= len(plan.tokens) <= limit
    assert (plan.finish_reason == "stop") == (plan.tokens[-1] == IM_END)
    assert plan.finish_reason == "stop" or len(plan.tokens) == limit


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 300))
def test_ignore_eos_gives_exactly_the_limit(prompt: list[int], limit: int) -> None:
    plan = generator(TOKENIZER).plan(prompt, Wish(limit, ignore_eos=True))
    assert len(plan.tokens) == limit and plan.finish_reason == "length"


@settings(deadline=None)
@given(PROMPTS, st.text("aeo nt.", min_size=1, max_size=3))
def test_text_ends_before_the_first_stop_string(prompt: list[int], stop: str) -> None:
    maker = generator(TOKENIZER)
    free = text(maker.plan(prompt, Wish(200)))
    plan = maker.plan(prompt, Wish(200, stop=(stop,)))
    if stop in free:
        assert text(plan) == free[: free.index(stop)]
        assert (plan.finish_reason, plan.stop_reason) == ("stop", stop)
        kept = maker.plan(prompt, Wish(200, stop=(stop,), include_stop=True))
        assert text(kept) == free[: free.index(stop) + len(stop)]
    else:
        assert text(plan) == free and plan.stop_reason is None


@settings(deadline=None)
@given(PROMPTS, st.integers(0, 2**32))
def test_a_seed_makes_sampling_deterministic(prompt: list[int], seed: int) -> None:
    wish = Wish(100, temperature=1.0, seed=seed)
    assert generator(TOKENIZER, seed=1).plan(prompt, wish) == generator(TOKENIZER, seed=2).plan(prompt, wish)


def test_sampling_without_a_seed_varies() -> None:
    maker = generator(TOKENIZER)
    assert len({text(maker.plan([1, 2, 3], Wish(200, temperature=1.0, min_tokens=60))) for _ in range(5)}) > 1


def test_the_diverging_share_is_what_was_asked_and_begins_alike() -> None:
    own, other = generator(TOKENIZER), generator(TOKENIZER, diverge_rate=0.3)
    differing = 0
    shared_beginnings = 0
    for number in range(1000):
        a, b = own.plan([number, 7], Wish(200)), other.plan([number, 7], Wish(200))
        if a.tokens != b.tokens:
            differing += 1
            shared_beginnings += a.tokens[0] == b.tokens[0]
    assert 240 < differing < 360
    assert shared_beginnings > differing / 2


def test_lengths_are_long_tailed_around_the_median() -> None:
    maker = generator(TOKENIZER)
    lengths = sorted(len(maker.plan([number], Wish(10_000)).tokens) for number in range(500))
    assert 30 < lengths[250] < 50
    assert lengths[475] > 2.5 * lengths[250]


def test_another_model_says_something_else() -> None:
    wish = Wish(50, min_tokens=20)
    assert generator(TOKENIZER, model_seed=1).plan([1], wish) != generator(TOKENIZER).plan([1], wish)


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 3},
        "unit": {"enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "boolean"}},
    },
}


def test_forced_json_fits_its_schema_and_repeats() -> None:
    value = json.loads(json_answer(SCHEMA, [1, 2], 0))
    assert json_answer(SCHEMA, [1, 2], 0) == json_answer(SCHEMA, [1, 2], 0)
    assert set(value) == set(SCHEMA["properties"])
    assert 1 <= value["days"] <= 3 and value["unit"] in ("c", "f") and isinstance(value["tags"][0], bool)


def test_a_recursive_schema_ends() -> None:
    schema: dict[str, object] = {"type": "object"}
    schema["properties"] = {"child": schema}
    assert example_of(schema, Random(0))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**4))
def test_logprobs_are_log_probabilities(token: int, position: int) -> None:
    assert -10.0 < logprob_of(token, position) <= 0.0
