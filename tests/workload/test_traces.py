"""Recorded traces become conversations; a file of another kind is refused by name and line."""

import gzip
import json
from pathlib import Path

import pytest

from workload import traces


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_gsm8k_gives_one_conversation_a_question(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.jsonl", [{"question": "1+1?", "answer": "#### 2"}, {"question": "2+2?", "answer": "4"}]
    )
    asked = list(traces.gsm8k(path, max_tokens=9))
    assert [conversation.turns[0].user for conversation in asked] == ["1+1?", "2+2?"]
    assert all(
        len(conversation.turns) == 1 and conversation.turns[0].max_tokens == 9 for conversation in asked
    )


@pytest.mark.parametrize("name", ["h.jsonl", "h.jsonl.gz"])
def test_humaneval_is_read_plain_or_compressed(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, [{"task_id": "t/0", "prompt": "def f():\n", "test": ""}])
    (conversation,) = traces.humaneval(path)
    assert conversation.turns[0].user.endswith("def f():\n")


def mooncake_rows() -> list[dict[str, object]]:
    return [
        {"timestamp": 0, "input_length": 1100, "output_length": 7, "hash_ids": [0, 1, 2]},
        {"timestamp": 0, "input_length": 1536, "output_length": 5, "hash_ids": [0, 1, 9]},
        {"timestamp": 3000, "input_length": 512, "output_length": 0, "hash_ids": [4]},
    ]


def test_mooncake_rows_share_exactly_the_text_of_their_leading_blocks(tmp_path: Path) -> None:
    arrivals = list(traces.mooncake(write(tmp_path / "m.jsonl", mooncake_rows()), block_words=20))
    first, second, third = [arrival.conversation.turns[0].user.split("\n") for arrival in arrivals]
    assert first[:2] == second[:2] and first[2] != second[2] and third[0] not in first
    assert [arrival.conversation.turns[0].max_tokens for arrival in arrivals] == [7, 5, 1]


def test_the_last_mooncake_block_is_as_full_as_the_row_says(tmp_path: Path) -> None:
    first, *_ = traces.mooncake(write(tmp_path / "m.jsonl", mooncake_rows()), block_words=512)
    assert [len(block.split(" ")) for block in first.conversation.turns[0].user.split("\n")] == [512, 512, 76]


def test_mooncake_arrivals_are_spread_inside_their_bucket_unless_wanted_as_recorded(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", mooncake_rows())
    assert [arrival.at_s for arrival in traces.mooncake(path)] == [0.0, 1.5, 3.0]
    assert [arrival.at_s for arrival in traces.mooncake(path, spread=False)] == [0.0, 0.0, 3.0]
    assert [arrival.at_s for arrival in traces.mooncake(path, speed=3.0)] == [0.0, 0.5, 1.0]


def test_a_file_of_another_kind_is_refused_by_name_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", [{"question": "1+1?"}])
    with pytest.raises(traces.TraceError, match=r"m\.jsonl:1: not a Mooncake row"):
        list(traces.mooncake(path))
    with pytest.raises(traces.TraceError, match=r"m\.jsonl:1: expected a text field 'prompt'"):
        list(traces.humaneval(path))
    path.write_text('{"question": "fine"}\nnot json\n')
    with pytest.raises(traces.TraceError, match=r"m\.jsonl:2: expected a JSON object"):
        list(traces.gsm8k(path))
