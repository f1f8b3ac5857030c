"""TensorRT-LLM's events say what vLLM's would."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.events.decode import Cleared, Removed, Stored, decode
from routing.events.trtllm import Translator
from tests.routing.events.memory import payload, stored

CREATED = {"type": "created", "num_blocks_per_cache_level": [100, 0]}


def block(own: int, tokens: range, level: int = 0, extra: int = 0) -> dict[str, Any]:
    said = [{"token_id": token, "token_extra_id": extra} for token in tokens]
    return {"type": "stored_block", "block_hash": own, "tokens": said, "cache_level": level, "priority": 35}


def chain(parent: int | None, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "stored", "parent_hash": parent, "blocks": list(blocks)}


def answer(*data: dict[str, Any], first: int = 0, **more: Any) -> bytes:
    return json.dumps([{"event_id": first + n, "data": one, **more} for n, one in enumerate(data)]).encode()


def read(*data: dict[str, Any], translator: Translator | None = None, **more: Any) -> list[Any]:
    """The events that are read from what was translated, and their reasons where they are none."""
    found: list[Any] = []
    for _rank, _number, message in (translator or Translator()).take(answer(*data, **more)):
        batch = decode(message)
        found += [*batch.events, *batch.ignored]
    return found


def test_what_is_stored_removed_and_moved_is_told_as_vllm_tells_it() -> None:
    said = read(
        CREATED,
        chain(None, block(1, range(4)), block(2, range(4, 8))),
        chain(2, block(3, range(8, 12)), block(4, range(12, 14))),
        chain(2, block(5, range(8, 12), level=1)),
        {"type": "removed", "block_hashes": [2, 3]},
        {"type": "updated", "block_hash": 1, "cache_level": {"old_value": 0, "new_value": 1}},
        {"type": "updated", "block_hash": 1, "priority": {"old_value": 0, "new_value": 1}},
        {"type": "invented"},
    )
    want = decode(payload(stored([1, 2], None, range(8)), stored([3], 2, range(8, 12)))).events
    assert said == [Cleared(), *want, Removed((2, 3)), Removed((1,)), "unknown_tag"]


def test_images_tell_blocks_apart() -> None:
    plain, image = (read(chain(None, block(1, range(4), extra=extra)))[0] for extra in (0, 9))
    assert isinstance(plain, Stored) and isinstance(image, Stored)
    assert plain.extras is None and image.extras is not None and image.tokens == plain.tokens


def test_only_the_largest_window_counts() -> None:
    translator = Translator()
    assert read(CREATED, translator=translator, window_size=512) == [Cleared()]
    assert read(CREATED, translator=translator, first=1, window_size=4096) == [Cleared()]
    assert read(chain(None, block(1, range(4))), translator=translator, first=2, window_size=512) == []
    [event] = read(chain(None, block(1, range(4))), translator=translator, first=3, window_size=4096)
    assert isinstance(event, Stored)


def test_each_has_its_number_and_its_rank() -> None:
    said = Translator().take(answer(CREATED, CREATED, first=7, attention_dp_rank=3))
    assert [(rank, number, decode(message).rank) for rank, number, message in said] == [(3, 7, 3), (3, 8, 3)]


@pytest.mark.parametrize(
    "entry", [None, 7, {}, {"event_id": -1, "data": CREATED}, {"event_id": 1, "data": []}]
)
def test_an_entry_that_is_no_event_is_counted_and_the_next_is_read(entry: Any) -> None:
    translator = Translator()
    said = translator.take(json.dumps([entry, {"event_id": 5, "data": CREATED}]).encode())
    assert [number for _, number, _ in said] == [5] and translator.unread == 1


_anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["stored", "removed", "updated"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["event_id", "data", "type", "blocks", "tokens", "block_hash", "parent_hash", "block_hashes"]
            ),
            inner,
        )
    ),
    max_leaves=15,
)


@given(_anything)
def test_any_answer_is_read_or_is_no_list(said: Any) -> None:
    try:
        messages = Translator().take(json.dumps(said).encode())
    except ValueError:
        return
    for _, _, message in messages:
        decode(message)
