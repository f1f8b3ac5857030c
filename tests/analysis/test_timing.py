"""What the latencies of an answer are, and when there are none."""

from dataclasses import replace

from analysis.timing import gaps_ms, timing
from analysis.transcript import Choice, Content, TokenEvent, Transcript

MS = 1_000_000


def transcript(
    *at_ms: int, tokens: int | None = None, counts: tuple[int, ...] = (), sent_ms: int = 10
) -> Transcript:
    events = tuple(
        TokenEvent(at * MS, counts[place] if counts else None, visible=True) for place, at in enumerate(at_ms)
    )
    content = Content(
        streamed=True,
        token_events=events,
        completion_tokens=tokens if tokens is not None else len(events) or None,
        choices=(Choice(0, "x", finish_reason="stop"),),
        finished=True,
        last_ns=900 * MS,
    )
    return Transcript(5 * MS, sent_ms * MS, 11 * MS, 900 * MS, 200, "complete", content)


def test_ttft_runs_from_sending_and_the_users_from_receiving() -> None:
    clock = timing(transcript(110, 130))
    assert (clock.ttft_ms, clock.ttft_user_ms) == (100.0, 105.0)


def test_e2e_ends_at_the_last_token_and_not_at_the_end_of_the_stream() -> None:
    assert timing(transcript(110, 130)).e2e_ms == 120.0


def test_each_choices_gaps_are_its_own_however_their_events_mix() -> None:
    at_ms = ((0, 10), (1, 12), (0, 12), (0, 12), (1, 12), (1, 20), (0, 30))
    events = tuple(TokenEvent(at * MS, 1, visible=True, choice=choice) for choice, at in at_ms)
    said = transcript()
    mixed = replace(said, content=replace(said.content, token_events=events, completion_tokens=7))
    assert gaps_ms(mixed) == [2.0, 18.0, 8.0]
    clock = timing(mixed)  # the first arrivals have one token and two
    assert (clock.itl_ms, clock.arrival_tokens, clock.tpot_ms) == (8.0, 4 / 3, 28.0 / 4)


def test_tpot_divides_by_the_tokens_after_the_first_arrival() -> None:
    assert timing(transcript(110, 120, 140)).tpot_ms == 15.0
    assert timing(transcript(110, 140, tokens=7)).tpot_ms == 5.0
    assert timing(transcript(110, 140, tokens=7, counts=(4, 3))).tpot_ms == 10.0


def test_events_of_one_read_are_one_arrival() -> None:
    answer = transcript(110, 110, 120, 140)
    assert gaps_ms(answer) == [10.0, 20.0]
    assert timing(answer).tpot_ms == 15.0
    assert timing(answer).itl_ms == 15.0


def test_what_is_missing_is_none_and_never_0() -> None:
    nothing = timing(transcript())
    assert (nothing.ttft_ms, nothing.itl_ms, nothing.tpot_ms, nothing.e2e_ms) == (None,) * 4
    single = timing(transcript(110))
    assert (single.itl_ms, single.tpot_ms) == (None, None)
    at_once = timing(transcript(110, 110, 110, tokens=9))
    assert (at_once.itl_ms, at_once.tpot_ms) == (None, None)


def test_an_answer_in_one_piece_has_only_an_end() -> None:
    whole = Content(
        choices=(Choice(0, "x", finish_reason="stop"),), completion_tokens=4, finished=True, last_ns=300 * MS
    )
    clock = timing(Transcript(5 * MS, 10 * MS, 11 * MS, 900 * MS, 200, "complete", whole))
    assert (clock.ttft_ms, clock.itl_ms, clock.tpot_ms, clock.e2e_ms) == (None, None, None, 290.0)
