"""Files of traffic: what each says is read, what none says is not made up, and mistakes are named."""

import json
from pathlib import Path

import pytest

from workload.asks import asks, at_speed, block_hits
from workload.command import main
from workload.formats import NO_FILE, NO_ROW, is_empty, read, spread
from workload.row import Row, from_line, to_line
from workload.traces import TraceError

MOONCAKE = [
    {"timestamp": 3000 * (n // 20), "input_length": 700 + n, "output_length": 9, "hash_ids": [0, 100 + n]}
    for n in range(60)
]
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:05.4799600,110,27
"""
SHAREGPT = [
    {
        "id": "t1",
        "conversations": [
            {"from": "human", "value": "one?"},
            {"from": "gpt", "value": "the first answer"},
            {"from": "human", "value": "two?"},
            {"from": "gpt", "value": "the second"},
        ],
    },
    {"id": "t2", "conversations": [{"from": "human", "value": "alone?"}, {"from": "gpt", "value": "yes"}]},
]


def lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_mooncake_rows_keep_blocks_and_lengths_and_their_buckets_are_seen(tmp_path: Path) -> None:
    found = read([lines(tmp_path / "trace.jsonl", MOONCAKE)])
    assert (found.kind, found.block_tokens, found.bucketed, found.timed) == ("mooncake", 512, True, True)
    assert [row.input_length for row in found.rows] == [700 + n for n in range(60)]
    even = spread(found.rows)
    assert len({row.timestamp for row in even}) == 60
    assert all(0 <= one.timestamp - row.timestamp < 3000 for one, row in zip(even, found.rows, strict=True))


@pytest.mark.parametrize("size", [16, 64, 512])
def test_the_size_of_blocks_is_found_out(tmp_path: Path, size: int) -> None:
    rows = [
        {"timestamp": n, "input_length": n, "output_length": 1, "hash_ids": list(range(-(-n // size)))}
        for n in range(1, 2_000, 37)
    ]
    assert read([lines(tmp_path / "a.jsonl", rows)]).block_tokens == size


def test_azure_gives_instants_from_the_first_on_and_no_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(AZURE)
    found = read([tmp_path / "a.csv"])
    assert found.kind == "azure" and [row.input_length for row in found.rows] == [4808, 3180, 110]
    assert [round(row.timestamp) for row in found.rows] == [0, 52, 1500]
    assert all(row.hash_ids == [] and row.session is None for row in found.rows)
    assert block_hits(asks(found.rows, 512)) is None


def test_sharegpt_gives_a_request_for_each_answer_with_all_before_it(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(SHAREGPT))
    found = read([tmp_path / "a.json"])
    assert found.kind == "sharegpt" and not found.timed
    one, two, other = found.rows
    assert (one.parent, two.parent, other.parent) == (None, one.id, None)
    assert two.request == {
        "messages": [
            {"role": "user", "content": "one?"},
            {"role": "assistant", "content": "the first answer"},
            {"role": "user", "content": "two?"},
        ]
    }


def test_rows_come_in_order_and_a_turn_after_the_one_it_continues() -> None:
    rows = [
        Row(timestamp=9.0, input_length=40, output_length=1, hash_ids=[1, 2, 4], id="b", parent="a"),
        Row(timestamp=5.0, input_length=20, output_length=1, hash_ids=[1, 3], id="a"),
        Row(timestamp=7.0, input_length=40, output_length=1, hash_ids=[7, 2, 4], id="c", parent="a"),
        Row(timestamp=8.0, input_length=40, output_length=1, hash_ids=[8], id="d", parent="lost"),
    ]
    listed = list(at_speed(asks(rows, 16), 2.0))
    assert [(ask.id, ask.at_s, ask.after) for ask in listed] == [
        ("a", 0.0, None),
        ("c", 0.001, "a"),
        ("d", 0.0015, None),
        ("b", 0.002, "a"),
    ]
    assert [ask.shared for ask in listed] == [0, 0, 0, 20]


def test_the_hit_rate_of_blocks_is_what_leading_blocks_were_seen() -> None:
    rows = [
        Row(timestamp=0, input_length=32, output_length=1, hash_ids=[1, 2]),
        Row(timestamp=1, input_length=40, output_length=1, hash_ids=[1, 2, 3]),
        Row(timestamp=2, input_length=32, output_length=1, hash_ids=[9, 2]),
    ]
    assert block_hits(asks(rows, 16)) == pytest.approx(32 / 104)


def test_a_row_is_its_line() -> None:
    row = Row(timestamp=1.5, input_length=3, output_length=4, hash_ids=[1], id="x", request={"a": [1]})
    assert from_line(to_line(row)) == row
    assert set(json.loads(to_line(row))) == set(Row.__struct_fields__)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"timestamp": 1}\n', "a.jsonl:1: not a row of the Mooncake schema"),
        ("a.jsonl", "nothing}\n", "a.jsonl:1: not a row"),
        ("a.csv", "a,b\n1,2\n", "a.csv:2: expected TIMESTAMP"),
        ("a.json", "{", "a.json: not JSON"),
        ("a.json", "{}", "a.json: expected a list of conversations"),
        (
            "a.json",
            '{"schema": 1, "openings": []}',
            "a.json: is a model, not traffic; `shadowlane workload gen",
        ),
        ("a.json", "[1]", "a.json: conversation 0: expected a list"),
        ("a.jsonl.zst", "plain", "a.jsonl.zst"),
        ("a.jsonl", "", "a.jsonl: there is no request in it; `shadowlane record` writes one"),
        ("a.jsonl", "\n \n", "a.jsonl: there is no request in it"),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n", "a.csv: there is no request in it"),
        ("a.json", "[]", "a.json: there is no request in it"),
    ],
)
def test_a_file_that_is_none_is_told_by_name_and_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(TraceError, match=said):
        read([tmp_path / name])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no such file"):
        read([tmp_path / "none.jsonl"])
    with pytest.raises(TraceError, match=r"no file of traffic here .*`shadowlane record` writes one"):
        read([tmp_path])


def test_whether_there_is_anything_to_read_is_known_from_the_first_row(tmp_path: Path) -> None:
    assert is_empty(tmp_path) == NO_FILE
    (tmp_path / "a.jsonl").write_text("\n")
    assert is_empty(tmp_path) == is_empty(tmp_path / "a.jsonl") == NO_ROW
    (tmp_path / "b.jsonl").write_text('{"timestamp": 0}\n')  # what it is, is read later
    assert is_empty(tmp_path) is None
    (tmp_path / "c.json").write_text("[]")
    assert is_empty(tmp_path / "c.json") is None
    (tmp_path / "d.jsonl.zst").write_text("plain")
    with pytest.raises(TraceError, match=r"d\.jsonl\.zst"):
        is_empty(tmp_path / "d.jsonl.zst")


def test_commands_say_so_and_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare, out = tmp_path / "bare.jsonl", str(tmp_path / "out")
    bare.touch()
    for argv in (
        ["replay", str(bare), "--to", "http://127.0.0.1:9"],
        ["workload", "fit", str(bare), "--out", out],
        ["workload", "generate", str(bare), "--out", out],
        ["workload", "compare", str(bare), str(bare)],
        ["workload", "export", str(bare), "--out", out],
    ):
        assert main(argv) == 2, argv
        assert f"{bare}: there is no request in it" in capsys.readouterr().err
