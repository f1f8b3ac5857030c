"""TensorRT-LLM's events say what vLLM's would."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.events.chain import block_chain
from routing.events.decode import Cleared, Removed, Stored, decode
from routing.events.publisher import Publisher
from routing.events.trtllm import Translator
from tests.routing.events.memory import Memory, payload, stored

CREATED = {"type": "created", "num_blocks_per_cache_level": [100, 0]}


def block(own: int, tokens: range, level: int = 0, extra: int = 0) -> dict[str, Any]:
    said = [{"token_id": token, "token_extra_id": extra} for token in tokens]
    return {"type": "stored_block", "block_hash": own, "tokens": said, "cache_level": level, "priority": 35}


def diff(old: int, new: int) -> dict[str, Any]:
    return {"type": "event_diff", "new_value": new, "old_value": old}


def chain(parent: int | str | None, *blocks: dict[str, Any]) -> dict[str, Any]:
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
        {"type": "removed", "block_hashes": [2, 3]},
        {"type": "updated", "block_hash": 1, "cache_level": None, "priority": diff(0, 1)},
        {"type": "invented"},
    )
    want = decode(payload(stored([1, 2], None, range(8)), stored([3], 2, range(8, 12)))).events
    assert said == [Cleared(), *want, Removed((2, 3), wholly=True), "unknown_tag"]


def test_levels_are_tiers_and_what_moves_is_told_there_before_it_is_gone_here() -> None:
    said = read(
        chain(None, block(1, range(4)), block(2, range(4, 8), level=1), block(3, range(8, 12), level=1)),
        {"type": "updated", "block_hash": 1, "cache_level": diff(0, 1), "priority": None},
        {"type": "updated", "block_hash": 2, "cache_level": diff(1, 0), "priority": None},
        {"type": "updated", "block_hash": 3, "cache_level": diff(1, 2), "priority": diff(1, 2)},
        {"type": "updated", "block_hash": 3, "cache_level": diff(2, 2), "priority": diff(2, 3)},
    )
    head = decode(payload(stored([1], None, range(4)), stored([2, 3], 1, range(4, 12), medium="CPU"))).events

    def moved(own: int, old: int, new: int) -> list[Stored | Removed]:
        return [Stored((own,), None, b"", 0, tier=new), Removed((own,), tier=old)]

    assert said == [*head, *moved(1, 0, 1), *moved(2, 1, 0), *moved(3, 1, 2)]


def test_what_the_engine_would_find_at_each_level_is_known_through_every_move() -> None:
    memory = Memory()
    publisher = Publisher(memory.book().open(4, 0), can_replay=False, most_blocks=100)
    reader, translator, number = memory.reader(), Translator(), 0
    publisher.connected()
    names = block_chain(list(range(16)), 4)

    def after(*data: dict[str, Any]) -> tuple[int, int, int]:
        """Leading blocks on the GPU, in the host's memory or above, on disk or above."""
        nonlocal number
        for _, at, message in translator.take(answer(*data, first=number)):
            publisher.heard(at, message)
        number += len(data)
        return reader.match(names, 4)[4], *reader.below(names, 4).get(4, (0, 0))

    def moves(old: int, new: int, *hashes: int) -> list[dict[str, Any]]:
        return [{"type": "updated", "block_hash": own, "cache_level": diff(old, new)} for own in hashes]

    whole = chain(None, *(block(n + 1, range(4 * n, 4 * n + 4)) for n in range(4)))
    assert after(CREATED, whole) == (4, 0, 0)
    assert after(*moves(0, 1, 4, 3)) == (2, 4, 4)
    assert after(*moves(1, 2, 4)) == (2, 3, 4)
    assert after(*moves(1, 0, 3)) == (3, 3, 4)
    assert after(*moves(2, 0, 4)) == (4, 4, 4)
    assert after(*moves(0, 1, 4, 3, 2)) == (1, 4, 4)
    assert after({"type": "removed", "block_hashes": [2]}) == (1, 1, 1), "with what continues it"
    assert after(chain(1, block(2, range(4, 8)))) == (2, 2, 2), "and alone it comes back"
    assert after(CREATED) == (0, 0, 0)
    assert not publisher.ignored and publisher.held_below == {1: 0, 2: 0}


def test_digests_salts_adapters_and_images_keep_blocks_apart_and_what_is_no_token_ends_a_chain() -> None:
    image = {"type": "mm_key", "hash": "0123456789abcdef", "start_offset": 4}
    plain = block(1, range(4)) | {"block_hash": "ff" * 24 + "00" * 7 + "2a"}
    odd = block(1, range(4, 8)) | {"tokens": [{"token_id": "ab12"}] * 4}
    ways: tuple[dict[str, Any], ...] = ({}, {"cache_salt": "tenant"}, {"lora_id": 7}, {"mm_keys": [image]})
    found = [read(chain("11" * 32, plain | more, odd, block(3, range(8, 12)))) for more in ways]
    assert all(len(one) == 1 and one[0].hashes == (42,) for one in found)
    told = [(one[0].salt, one[0].lora, one[0].extras) for one in found]
    assert told[:3] == [("", "", None), ("tenant", "", None), ("", "#7", None)]
    assert told[3][:2] == ("", "") and told[3][2] is not None
    [gone] = read({"type": "removed", "block_hashes": ["00" * 31 + "2a"]})
    assert gone.hashes == (42,)


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
    "entry",
    [
        None,
        7,
        {},
        {"event_id": -1, "data": CREATED},
        {"event_id": 1, "data": []},
        {"event_id": 1, "data": {"type": "removed", "block_hashes": [1 << 70]}},
        {"event_id": 1, "data": {"type": "removed", "block_hashes": ["", "no digest"]}},
        {"event_id": 1, "data": chain(None, block(1, range(1 << 70, (1 << 70) + 4)))},
        {"event_id": 1, "data": chain(None, block(1, range(4), level=-1))},
        {"event_id": 1, "data": {"type": "updated", "block_hash": 1, "cache_level": {"new_value": 1}}},
    ],
)
def test_an_entry_that_is_no_event_is_counted_and_the_next_is_read(entry: Any) -> None:
    translator = Translator()
    said = translator.take(json.dumps([entry, {"event_id": 5, "data": CREATED}]).encode())
    assert [number for _, number, _ in said] == [5] and translator.unread == 1


@pytest.mark.parametrize("junk", [b"", b"{}", b"7", b"\xff", b"[" * 200_000, b'{"a":' * 100_000])
def test_what_is_no_list_of_events_is_said_to_be_none(junk: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Translator().take(junk)


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
def test_any_answer_is_no_list_or_each_of_its_events_is_read_or_counted(said: Any) -> None:
    translator = Translator()
    try:
        messages = translator.take(json.dumps(said).encode())
    except ValueError:
        assert not isinstance(said, list)
        return
    assert len(messages) + translator.unread == len(said)
    for rank, _, message in messages:
        assert decode(message).rank == rank
