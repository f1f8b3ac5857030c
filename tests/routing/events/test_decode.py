"""Every dialect says the same; what is not understood is left out by itself."""

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.events.chain import packed
from routing.events.decode import Cleared, Removed, Stored, Undecodable, decode
from tests.routing.events.memory import CLEARED, captured, payload, removed, stored

TOKENS = list(range(8))
ARRAYS: list[Any] = [
    ["BlockStored", [1, 2], 9, TOKENS, 4, None, "GPU"],
    ["BlockRemoved", [1], "GPU"],
    ["AllBlocksCleared"],
]
MAPS: list[Any] = [stored([1, 2], 9, TOKENS, medium="GPU"), removed(1, medium="GPU"), CLEARED]
SAID = [Stored((1, 2), 9, packed(TOKENS), 4), Removed((1,)), Cleared()]
OUTER: dict[str, Callable[[list[Any]], Any]] = {
    "array": lambda events: [1.5, events],
    "array with rank": lambda events: [1.5, events, 3],
    "array with more": lambda events: [1.5, events, 3, {"new": 1}],
    "map": lambda events: {"ts": 1.5, "events": events},
    "map with rank": lambda events: {"ts": 1.5, "events": events, "data_parallel_rank": 3},
    "SGLang's map": lambda events: {"ts": 1.5, "events": events, "attn_dp_rank": 3},
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("picks", [(0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 0, 1)])
def test_outer_and_inner_are_arrays_or_maps_in_any_mixture(outer: str, picks: tuple[int, ...]) -> None:
    events = [(ARRAYS, MAPS)[pick][at] for at, pick in enumerate(picks)]
    batch = decode(msgpack.packb(OUTER[outer](events)))
    assert batch.events == SAID and not batch.ignored and not batch.malformed
    assert batch.rank == (3 if "rank" in outer or "more" in outer or "SGLang" in outer else None)
    assert batch.ts_s == 1.5


@pytest.mark.parametrize(
    ("hashes", "said"),
    [
        ([-1, 2**63], (2**64 - 1, 2**63)),
        ([2**64 - 1], (2**64 - 1,)),
        ([b"\x00" * 24 + b"\xff" * 8], (2**64 - 1,)),  # vLLM's digest, whose end is its integer form
        ([b"\x01\x02"], (0x102,)),
    ],
)
def test_hashes_are_signed_or_unsigned_or_bytes(hashes: list[Any], said: tuple[int, ...]) -> None:
    batch = decode(payload({"type": "BlockRemoved", "block_hashes": hashes}))
    assert batch.events == [Removed(said)]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (["BlockMigrated", [1], "host"], "unknown_tag"),
        ({"type": "BlockMigrated"}, "unknown_tag"),
        ({"no": "type"}, "unknown_tag"),
        (stored([1], None, TOKENS[:4], medium="MOON"), "tier"),
        (stored([1], None, TOKENS[:4], medium=7), "tier"),
        (removed(1, medium="MOON"), "tier"),
        (stored([1], None, TOKENS[:3], medium="CPU"), "tier_malformed"),
        (stored([1], None, TOKENS[:4], medium="CPU", locality="REMOTE"), "remote"),
        (stored([1], None, [], medium="CPU", group_idx=1), "group"),
        (stored([1], None, TOKENS[:4], medium="GPU", locality="REMOTE"), "remote"),
        (stored([1], None, TOKENS[:4], group_idx=1), "group"),
        (stored([1], None, TOKENS[:4], group_idx=0, kv_cache_spec_kind="sliding_window"), "group"),
        (stored([1], None, TOKENS[:4], kv_cache_spec_kind="mamba"), "group"),
        (stored([1], None, TOKENS[:4], kv_cache_spec_sliding_window=128), "group"),
        (stored([1], None, TOKENS[:3]), "malformed"),
        (stored([1], None, [1, 2, 3, 2**32]), "malformed"),
        (stored([1], None, [1, 2, 3, "x"]), "malformed"),
        (stored([1], None, TOKENS[:4], block_size=0), "malformed"),
        (stored([1], "x", TOKENS[:4]), "malformed"),
        (stored([1], None, TOKENS[:4], group_idx="0"), "malformed"),
        (
            stored([1], None, TOKENS[:4], extra_keys=[None, None]) | {"extra_keys": [["a"], ["b"]]},
            "malformed",
        ),
        ({"type": "BlockRemoved"}, "malformed"),
        ({"type": "BlockRemoved", "block_hashes": [[]]}, "malformed"),
        ({"type": "BlockRemoved", "block_hashes": [True]}, "malformed"),
        ({"type": "BlockRemoved", "block_hashes": [b""]}, "malformed"),
        (["BlockStored"], "malformed"),
        ([], "malformed"),
        (None, "malformed"),
        (7, "malformed"),
    ],
)
def test_what_says_nothing_of_whole_prefixes_here_is_left_out_by_itself(event: Any, reason: str) -> None:
    batch = decode(payload(MAPS[0], event, MAPS[1]))
    assert batch.events == SAID[:2]
    assert batch.ignored == {reason: 1} and batch.malformed == (reason == "malformed")


@pytest.mark.parametrize("kind", ["full_attention", "mla_attention", "sink_full_attention"])
def test_a_group_that_keeps_the_whole_prefix_counts_whatever_its_number(kind: str) -> None:
    [event] = decode(payload(stored([1], None, TOKENS[:4], group_idx=2, kv_cache_spec_kind=kind))).events
    assert isinstance(event, Stored) and event.group == 2


@pytest.mark.parametrize(
    ("fields", "lora", "salt"),
    [
        ({"extra_keys": [["tenant-a"], None]}, "", "tenant-a"),
        ({"lora_name": "ad", "extra_keys": [["ad", "tenant-a"], ["ad"]]}, "ad", "tenant-a"),
        ({"lora_name": "ad", "extra_keys": [["ad"], ["ad"]]}, "ad", ""),
        ({"lora_id": 3}, "#3", ""),
        ({"lora_id": 3, "lora_name": "ad"}, "ad", ""),
        ({"cache_salt": "tenant-a"}, "", "tenant-a"),
        ({"lora_name": {"cache_salt": "tenant-a"}}, "", "tenant-a"),
    ],
)
def test_salt_and_lora_are_told_apart_from_the_rest(fields: dict[str, Any], lora: str, salt: str) -> None:
    [event] = decode(payload(stored([1, 2], None, TOKENS, **fields))).events
    assert isinstance(event, Stored)
    assert (event.lora, event.salt, event.extras) == (lora, salt, None)


def test_images_are_part_of_a_block_and_no_salt() -> None:
    [event] = decode(payload(stored([1, 2], None, TOKENS, extra_keys=[None, [["digest", 3]]]))).events
    assert isinstance(event, Stored) and event.salt == ""
    assert event.extras is not None and not event.extras[0] and event.extras[1]
    [event] = decode(payload(stored([1, 2], 9, TOKENS, extra_keys=[["digest"], None]))).events
    assert isinstance(event, Stored) and event.salt == "" and event.extras is not None and event.extras[0]


def test_eagles_pairs_are_their_first_tokens() -> None:
    pairs = [[token, token + 1] for token in TOKENS[:4]]
    [event] = decode(payload(stored([1], None, pairs))).events
    assert isinstance(event, Stored) and event.tokens == packed(TOKENS[:4])


@pytest.mark.parametrize(
    ("name", "kinds", "size"),
    [
        ("vllm", {Stored}, 32),
        ("vllm_bytes", {Stored, Removed, Cleared}, 32),
        ("sglang", {Stored, Cleared}, 16),
        ("mocker", {Stored}, 16),
    ],
)
def test_what_was_captured_from_real_engines_is_read_whole(name: str, kinds: set[type], size: int) -> None:
    batches = [decode(message) for _, _, message in captured(name)]
    events = [event for batch in batches for event in batch.events]
    assert {type(event) for event in events} == kinds
    assert not any(batch.ignored for batch in batches)
    assert {event.block_size for event in events if isinstance(event, Stored)} == {size}
    if name == "vllm":
        assert {event.salt for event in events if isinstance(event, Stored)} == {"", "tenant-a"}


_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=4)
    | st.binary(max_size=9) | st.sampled_from(["BlockStored", "BlockRemoved", "type", "events"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
_fields = st.dictionaries(
    st.sampled_from(["block_hashes", "parent_block_hash", "token_ids", "block_size", "extra_keys", "medium"]),
    _anything,
)


@given(st.binary(max_size=64) | _anything.map(msgpack.packb))
def test_any_bytes_are_a_batch_or_undecodable(data: bytes) -> None:
    try:
        batch = decode(data)
    except Undecodable:
        return
    assert all(isinstance(event, Stored | Removed | Cleared) for event in batch.events)


@given(st.lists(_anything | _fields.map(lambda fields: {**fields, "type": "BlockStored"}), max_size=4))
def test_each_event_is_taken_or_counted(events: list[Any]) -> None:
    batch = decode(payload(*events, MAPS[1]))
    assert len(batch.events) + batch.ignored.total() == len(events) + 1
    assert batch.events[-1] == SAID[1]


def test_lengths_that_lie_and_endless_nesting_are_undecodable() -> None:
    for data in (b"\xdd\xff\xff\xff\xff\x01", b"\x91" * 100_000, b"\xdf\xff\xff\xff\xff", b""):
        with pytest.raises(Undecodable):
            decode(data)
