"""What does reading answers cost, a token, and how many pairs a second can one core compare?

    python -m bench.parsing [--rounds N] [--tokens N]

First the readers: streams as engines write them, one token an event, each event in a read of its own; then
speculative bursts and cumulative texts. Then what follows: timing and every comparison of a pair that is
parsed already, for answers that are the same, that part in the middle, and that have nothing in common. CPU
time of this process; medians of rounds with their 95 % intervals.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from random import Random
from time import process_time_ns
from typing import Any

from analysis.measure import scores, transcript_of
from analysis.metrics._choose import every_metric
from analysis.readers._choose import reader_of
from analysis.timing import timing
from analysis.transcript import Transcript
from bench.figures import median

CHAT, GENERATE = "/v1/chat/completions", "/generate"
_WORDS = [
    " the",
    " lane",
    " is",
    " a",
    " hand",
    "-off",
    ",",
    " bounded",
    " and",
    " never",
    " waited",
    " for",
    ".",
]
_HEAD = {"id": "chatcmpl-827c585307ff26a1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}


def spoken(tokens: int, seed: int) -> list[str]:
    """So many tokens of prose without sense."""
    rng = Random(seed)
    return [rng.choice(_WORDS) for _ in range(tokens)]


def event(body: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def chat(
    words: list[str], *, ids: bool = False, top: int = 0, burst: int = 1, usage: bool = False
) -> list[bytes]:
    """A chat completion as vLLM streams it, `burst` tokens an event."""
    events = [event({**_HEAD, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})]
    for at in range(0, len(words), burst):
        part = words[at : at + burst]
        choice: dict[str, Any] = {"index": 0, "delta": {"content": "".join(part)}, "finish_reason": None}
        choice["logprobs"] = None
        if top:
            likely = [{"token": f"t{n}", "logprob": -0.5 - n, "bytes": [65]} for n in range(top)]
            told = [{"token": w, "logprob": -0.5, "bytes": [65], "top_logprobs": likely} for w in part]
            choice["logprobs"] = {"content": told}
        if ids:
            choice["token_ids"] = list(range(len(part)))
        chunk = {**_HEAD, "choices": [choice]}
        if usage:
            chunk["usage"] = {"prompt_tokens": 9, "completion_tokens": at + len(part), "total_tokens": 9 + at}
        events.append(event(chunk))
    events.append(event({**_HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    total = {"prompt_tokens": 9, "completion_tokens": len(words), "total_tokens": 9 + len(words)}
    return [*events, event({**_HEAD, "choices": [], "usage": total}), b"data: [DONE]\n\n"]


def cumulative(words: list[str]) -> list[bytes]:
    """/generate as SGLang streams it: the whole text so far in every event."""
    meta = {"finish_reason": None, "prompt_tokens": 9}
    return [
        event({"text": "".join(words[: n + 1]), "meta_info": {**meta, "completion_tokens": n + 1}})
        for n in range(len(words))
    ]


def read(path: str, reads: list[bytes]) -> None:
    """One answer, each event in a read of its own."""
    reader = reader_of(path)
    for at_ns, data in enumerate(reads):
        reader.feed(data, at_ns)
    reader.end(len(reads))


def parsed(events: list[bytes]) -> Transcript:
    """The transcript of a chat that streamed these, 10 ms apart."""
    reads = [[10_000_000 * n, data] for n, data in enumerate(events, start=1)]
    head = {"sent_ns": 0, "head_ns": 1, "end_ns": reads[-1][0], "status": 200, "ending": "complete"}
    return transcript_of({**head, "reads": reads}, CHAT, 0)


def timed(work: Callable[[], None], times: int, rounds: int) -> list[float]:
    """Microseconds of CPU a call, by round."""
    found = []
    for _ in range(rounds):
        began = process_time_ns()
        for _ in range(times):
            work()
        found.append((process_time_ns() - began) / times / 1000)
    return found


def main() -> None:
    """Measure and print."""
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rounds", type=int, default=9)
    given.add_argument("--tokens", type=int, default=250, help="in an answer")
    asked = given.parse_args()
    words, rounds = spoken(asked.tokens, 1), asked.rounds
    streams: dict[str, tuple[str, list[bytes]]] = {
        "chat": (CHAT, chat(words)),
        "chat, usage in each event": (CHAT, chat(words, usage=True)),
        "chat, token ids": (CHAT, chat(words, ids=True)),
        "chat, logprobs with 5 alternatives": (CHAT, chat(words, top=5)),
        "chat, 4 tokens an event": (CHAT, chat(words, burst=4)),
        "/generate, cumulative": (GENERATE, cumulative(words)),
    }
    print(f"reading an answer of {asked.tokens} tokens: µs of CPU a token")
    for name, (path, reads) in streams.items():
        found = timed(lambda path=path, reads=reads: read(path, reads), 40, rounds)  # type: ignore[misc]
        print(f"  {name:36} {median([one / asked.tokens for one in found])}")
    ours = parsed(chat(words))
    others = {
        "the same": parsed(chat(words)),
        "part in the middle": parsed(chat([*words[: len(words) // 2], *spoken(len(words) // 2, 2)])),
        "have nothing in common": parsed(chat(spoken(asked.tokens, 3))),
    }
    print(
        f"timing and {len(every_metric())} comparisons of a pair that is parsed: pairs a second on one core"
    )
    for name, other in others.items():

        def pair(other: Transcript = other) -> None:
            timing(ours), timing(other)
            scores(ours.content, other.content)

        found = timed(pair, 100, rounds)
        print(f"  answers {name:28} {median([1e6 / one for one in found])}")


if __name__ == "__main__":
    main()
