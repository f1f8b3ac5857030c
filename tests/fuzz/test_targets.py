"""The fuzz targets, on a few inputs each; `make fuzz` gives them a million."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.seeds import seeds, words
from fuzz.targets import TARGETS

every_target = pytest.mark.parametrize("name", TARGETS)


@every_target
def test_a_target_holds_for_its_seeds(name: str) -> None:
    for seed in seeds(name):
        TARGETS[name](seed)


@every_target
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_target_holds_for_what_is_near_its_seeds_and_for_anything(name: str, data: st.DataObject) -> None:
    TARGETS[name](data.draw(st.binary(max_size=200)))
    mixed = st.lists(st.one_of(st.sampled_from(words(name)), st.binary(max_size=4)), max_size=12).map(
        b"".join
    )
    TARGETS[name](data.draw(mixed))
    TARGETS[name](
        _mutated(data.draw(st.sampled_from(seeds(name))), data.draw(st.integers(0, 1 << 32)), words(name))
    )


def _mutated(seed: bytes, number: int, parts: list[bytes]) -> bytes:
    """A seed with up to three places cut out, doubled or written over."""
    rng = random.Random(number)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(seed))
        end = min(len(seed), at + rng.choice((0, 1, 4, 40)))
        put = rng.choice((b"", seed[at:end] * 2, rng.choice(parts), rng.randbytes(1)))
        seed = seed[:at] + put + seed[end:]
    return seed
