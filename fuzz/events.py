"""What must hold for whatever an engine publishes of its KV cache, or says of where it does."""

import msgspec

from gateway.kv.sources import PATHS, told
from routing.events.board import WORDS, Board, State
from routing.events.book import Book
from routing.events.chain import block_chain
from routing.events.decode import WHOLLY, Cleared, Removed, Stored, Undecodable, decode
from routing.events.load import load
from routing.events.publisher import Publisher
from routing.events.reader import Reader
from routing.events.trtllm import Translator

_MOST = 50
_board = bytearray(WORDS * 8)
_tables = [bytearray()]


def _new_table(_generation: int, words: int) -> memoryview:
    _tables[0] = bytearray(words * 8)
    return memoryview(_tables[0]).cast("Q")


def kv_messages(data: bytes) -> None:
    """A message is read or said to be unreadable, the same each time; each event is taken or counted."""
    load(data, 1)
    try:
        batch = decode(data)
    except Undecodable:
        return
    again = decode(data)
    assert (batch.events, batch.ignored) == (again.events, again.ignored)
    for event in batch.events:
        assert isinstance(event, Stored | Removed | Cleared)
        if isinstance(event, Stored):
            assert len(event.tokens) == 4 * event.block_size * len(event.hashes)


def kv_publisher(data: bytes) -> None:
    """Nothing that one publishes raises, grows beyond its bound, or changes what another is known to hold."""
    board = Board(memoryview(_board).cast("Q"))
    book = Book(board, _new_table, lambda: 0x9E37_79B9_7F4A_7C15)
    book.beat(1)
    good = Publisher(book.open(0, 0), can_replay=False, most_blocks=_MOST)
    bad = Publisher(book.open(1, 0), can_replay=True, most_blocks=_MOST)
    word = {"type": "BlockStored", "block_hashes": [7], "token_ids": [1], "block_size": 1}
    good.heard(0, msgspec.msgpack.encode([0.0, [word], 0]))
    number, cut = 0, data[0] + 1 if data else 1
    for start in range(1, len(data), cut):
        piece = data[start : start + cut]
        what = piece[0] % 8
        if what == 0:
            bad.connected()
        elif what == 1:
            bad.replay_ended(whole=bool(number & 1))
        elif what == 2:
            bad.replayed(piece[-1], piece[1:])
        elif what == 3:
            bad.audit()
        else:
            number = piece[-1] if what == 4 else number + 1
            bad.heard(number, piece[1:])
        assert bad.held <= _MOST and all(held <= _MOST for held in bad.held_below.values())
    if data:
        bad.heard(number + 1, data)
    reader = Reader(Board(memoryview(_board).cast("Q")), lambda _: memoryview(_tables[0]).cast("Q"))
    reader.look(1)
    chain = block_chain([1, 2], 1)
    assert reader.match(chain, 1)[0] == 1
    assert (1 in reader.block_sizes()) <= (bad.state is State.EXACT)


def kv_sources(data: bytes) -> None:
    """Whatever an engine says of where it publishes is an address there, or nothing."""
    for path in PATHS:
        for source in told({path: (200, data)}, "10.0.0.5"):
            assert source.rank >= 0
            for endpoint in (source.publish, source.replay, source.load):
                assert endpoint is None or endpoint.startswith(("tcp://", "ipc://"))


def kv_drained(data: bytes) -> None:
    """What TensorRT-LLM answers is no list, or becomes messages that can be read."""
    try:
        messages = Translator().take(data)
    except ValueError:
        return
    for rank, number, message in messages:
        assert rank >= 0 and number >= 0
        decode(message)


def seeds(target: str) -> list[bytes]:
    """The beginnings of a target's corpus."""
    stored = {
        "type": "BlockStored", "block_hashes": [1, -2], "parent_block_hash": None, "token_ids": [1, 2, 3, 4],
        "block_size": 2, "extra_keys": [["salt"], None], "medium": "GPU",
    }  # fmt: skip
    array = ["BlockStored", [b"\x01" * 32], 1, [5, 6], 2, None, "GPU", None, None, 0, "full_attention"]
    events = [
        stored,
        array,
        {"type": "BlockRemoved", "block_hashes": [1]},
        {"type": "BlockStored", "block_hashes": [1], "token_ids": [], "block_size": 0, "medium": "CPU"},
        {"type": "BlockRemoved", "block_hashes": [1], "medium": "CPU"},
        {"type": "BlockRemoved", "block_hashes": [1], WHOLLY: True},
        ["AllBlocksCleared"],
        {"type": "X"},
    ]
    batches = [
        msgspec.msgpack.encode([1.5, events, 0]),
        msgspec.msgpack.encode({"ts": 1.5, "events": events, "data_parallel_rank": 1}),
        msgspec.msgpack.encode(["LoadStat", 1, 2, 3, 4, 0, 5]),
        b"\xdd\xff\xff\xff\xff",
    ]
    if target == "kv_messages":
        return batches
    if target == "kv_publisher":
        return [b"\x10" + bytes([5]) + batch for batch in batches] + [bytes([4, 0, 5, 1, 2, 3, 4]) * 6]
    if target == "kv_sources":
        source = {"data_parallel_rank": 0, "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5558"}
        described = {"publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 5557, "dp_size": 2}
        return [msgspec.json.encode([source]), msgspec.json.encode({"kv_events": described}), b"[]"]
    block = {"block_hash": 1, "tokens": [{"token_id": 1, "token_extra_id": 0}], "cache_level": 0}
    level = {"old_value": 0, "new_value": 1}
    data = [
        {"type": "stored", "parent_hash": None, "blocks": [block, {**block, "cache_level": 1}]},
        {"type": "updated", "block_hash": 1, "cache_level": level},
        {"type": "removed", "block_hashes": [1, "00ff"]},
        {"type": "created"},
    ]
    return [msgspec.json.encode([{"event_id": n, "data": one} for n, one in enumerate(data)])]


WORDS_OF = [
    b"\xa4type", b"\xabBlockStored", b"\xacBlockRemoved", b"\xb0AllBlocksCleared", b"\xacblock_hashes",
    b"\xb1parent_block_hash", b"\xa9token_ids", b"\xaablock_size", b"\xaaextra_keys", b"\xa6medium",
    b"\xa3GPU", b"\xa3CPU", b"\xa6wholly\xc3", b'"cache_level":', b'"block_hash":',
    b"\xa9group_idx", b"\xa9lora_name", b"\xaacache_salt", b"\x90", b"\x91", b"\x93", b"\xc0",
    b"\xc4\x01\x01",
    b"\xd3",
    b'"kv_events":', b'"endpoint":"tcp://*:', b'"event_id":', b'"blocks":[', b"[", b"]", b"{", b"}", b",",
]  # fmt: skip

TARGETS = {
    "kv_messages": kv_messages,
    "kv_publisher": kv_publisher,
    "kv_sources": kv_sources,
    "kv_drained": kv_drained,
}
