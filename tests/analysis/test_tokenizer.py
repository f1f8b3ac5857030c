"""Where no engine says how many tokens there are the model's own tokenizer counts them, which is recorded."""

import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.measure import measure
from analysis.tokenizer import LazyCount, TokenizerError, counted, load
from analysis.transcript import Choice, Content, ToolCall
from tests.analysis.engines import CAPTURED, read
from tests.analysis.fleet import MS, pair_frame

FILE = Path(__file__).parent.parent / "e2e" / "tiny-llama" / "tokenizer.json"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7}}\n\n'


@pytest.fixture
def library() -> None:
    pytest.importorskip("tokenizers", reason="pip install tokenizers")


def words(text: str) -> int:
    return len(text.split())


def said(arm: str, *texts: str, usage: bytes = b"") -> dict[str, Any]:
    events = [b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % t.encode() for t in texts]
    events.append(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n' + usage)
    return {
        "arm": arm, "twin": 0, "order": 0, "sent_ns": 0, "head_ns": MS, "status": 200, "end_ns": 99 * MS,
        "content_type": "text/event-stream", "ending": "complete",
        "reads": [[(10 + 10 * n) * MS, event] for n, event in enumerate(events)],
    }  # fmt: skip


def test_it_counts_as_the_engine_whose_tokenizer_it_is_did(library: None) -> None:
    """Real answers of real engines that ran with this tokenizer and said how many tokens there were."""
    count = load(FILE)
    seen = 0
    for one in CAPTURED:
        content = read(one.path, [(0, one.raw)])
        if one.file.startswith("vllm/") and content.token_source in ("usage", "token_ids") and one.tokens:
            unsaid = Content(choices=content.choices, completion_tokens=1, token_source="chunks")
            found = counted(unsaid, count)
            assert found.token_source == "tokenizer" and found.completion_tokens is not None
            assert abs(found.completion_tokens - one.tokens) <= 1 + one.tokens // 4, one.file
            seen += 1
    assert seen >= 5


def test_what_an_engine_says_is_believed_before_it() -> None:
    pair = pair_frame([said("control", "a b ", "c d"), said("c1", "a b ", "c d", usage=USAGE)])
    ours, theirs = measure(pair, words).answers
    assert (ours.completion_tokens, ours.token_source) == (4, "tokenizer")
    assert (theirs.completion_tokens, theirs.token_source) == (7, "usage")
    assert measure(pair).answers[0].token_source == "chunks"


def test_the_time_per_token_is_of_the_tokens_counted() -> None:
    (one,) = measure(pair_frame([said("control", "a ", "b c ", "d e")]), words).answers
    assert one.tpot_ms == pytest.approx(20.0 / 4)  # five tokens, one of them with the first chunk


def test_production_is_counted_likewise_and_lengths_are_compared() -> None:
    answers = [said("control", "a b c d"), said("c1", "a b")]
    record = measure(pair_frame(answers, production=said("production", "a b c")), words)
    assert record.production is not None and record.production.completion_tokens == 3
    assert record.outputs["c1"]["length_ratio"] == pytest.approx(-0.6931, abs=1e-3)


def test_reasoning_and_calls_count_and_each_choice_by_itself() -> None:
    call = ToolCall("look up", "{a b}")
    choices = (Choice(0, "one two", reasoning="three", tool_calls=(call,)), Choice(1, "four"))
    found = counted(Content(choices=choices, completion_tokens=2, token_source="chunks"), words)
    assert found.completion_tokens == 8 and [one.tokens for one in found.choices] == [7, 1]


@pytest.mark.parametrize(
    "content",
    [
        Content(opaque=True),
        Content(choices=(Choice(0),)),
        Content(choices=(Choice(0, "a b"),), completion_tokens=9, token_source="logprobs"),
    ],
)
def test_what_says_nothing_or_enough_stays_as_it_is(content: Content) -> None:
    assert counted(content, words) == content


def test_a_file_that_is_not_there_or_no_tokenizer_is_named(tmp_path: Path, library: None) -> None:
    with pytest.raises(TokenizerError, match=r"nowhere\.json cannot be read: No such file"):
        load(tmp_path / "nowhere.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(TokenizerError, match=r"other\.json is no tokenizer\.json"):
        load(tmp_path / "other.json")


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as Python itself marks what cannot be imported
    with pytest.raises(TokenizerError, match=r"pip install tokenizers"):
        load(FILE)


def test_where_it_cannot_be_loaded_after_all_chunks_are_counted_and_it_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []
    count = LazyCount(tmp_path / "gone.json", told.append)
    pair = pair_frame([said("control", "a b ", "c d"), said("c1", "a")])
    assert [one.token_source for one in measure(pair, count).answers] == ["chunks", "chunks"]
    assert len(told) == 1


def test_what_a_tokenizer_puts_around_every_text_is_not_counted(tmp_path: Path, library: None) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({"<s>": 0, "a": 1, "b": 2}, unk_token="<s>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    assert len(made.encode("a b a").ids) == 4
    assert load(tmp_path / "tokenizer.json")("a b a") == 3


def of_words(path: Path, unknown: str | None = None) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    found = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token=unknown))
    found.pre_tokenizer = pre_tokenizers.Whitespace()
    found.save(str(path))
    return found


def test_neither_truncation_nor_padding_of_the_file_changes_a_count(library: None, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    found = of_words(file, "?")
    found.enable_truncation(512)
    found.enable_padding(length=128)
    found.save(str(file))
    count = load(file)
    assert count("a " * 2000) == 2000
    assert count("a b") == 2


def test_a_text_with_a_word_that_has_no_token_is_not_counted(library: None, tmp_path: Path) -> None:
    of_words(tmp_path / "tokenizer.json")
    count = LazyCount(tmp_path / "tokenizer.json", pytest.fail)
    assert (count("a b"), count("a new word")) == (2, None)
    known, unknown = measure(pair_frame([said("control", "a b"), said("c1", "a new word")]), count).answers
    assert (known.token_source, unknown.token_source) == ("tokenizer", "chunks")
