"""Which chat templates may be learned from: those that go on where the prompt before ended.

An engine is asked for the token ids of short made-up conversations, each with the turn before it. What the
earlier prompt has and the later one does not share is the template's tail: a generation prompt, an empty
thinking block. More than `MOST_TAIL_TOKENS` says that the template rewrites what stood before: no such prompt
is learned. Plain talk, thinking and tools' steps are told apart, since there are templates that only drop
old thinking, or that only do so once a loop of tools has ended. Of the latter it is also asked whether what
is written then goes on from where the loop began, and stays: then their prompts can be learned with the
thinking of open loops set apart (`routing.loops`). The system text is long: some templates move it to the
last user message, and with a short one that hides within the tail.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from xxhash import xxh3_64_intdigest

from routing.bridge.anchors import Marker, marker
from routing.bridge.features import Feature
from routing.bridge.fit import CHAT

MOST_TAIL_TOKENS: Final = 16
_SYSTEM: Final = (
    "You answer for the harbour office. Berths are given by number and tide, never by the name of a ship. "
    "Whoever asks for a pilot is told the hour, the channel and the fee. Fees are in whole crowns; nobody is "
    "promised a discount. When two ships want one berth, the one that was announced first has it, and the "
    "other is told by when it will be free. Storm warnings come before everything else and are repeated. "
    "Questions about customs go to the customs house, with its address and its opening hours. Write short "
    "sentences. Do not guess at a tide: say that the table is missing, and for which day it is missing."
)
_REPLIES: Final = ("ok", "\n\nok", " ok", "")
_THOUGHT: Final = (
    "The ship came at nine. Berth four is free until noon, berth six is not. The tide turns at half past "
    "ten, so the pilot has to be aboard by ten at the latest. I answer with the berth and with the hour."
)
_TOOLS: Final[list[dict[str, Any]]] = [
    {
        "type": "function",
        "function": {
            "name": "berth",
            "description": "Tell whether a berth is free.",
            "parameters": {
                "type": "object",
                "properties": {"number": {"type": "integer", "description": "the berth's number"}},
                "required": ["number"],
            },
        },
    }
]
Messages = list[dict[str, Any]]
_BOTH: Final = Feature.TOOLS | Feature.THINKING


class Step(Struct, frozen=True):
    """One conversation, and its next turn: two bodies for /tokenize."""

    features: Feature
    before: dict[str, Any]
    after: dict[str, Any]
    closes: bool | None = None
    """Whether a loop of tools is closed between them, and how that is looked at: True: from the loop's
    beginning; False: from its last step. None: it is not."""

    @property
    def has_system(self) -> bool:
        """Whether there is a system message: without, a template may add one."""
        return bool(self.before["messages"][0]["role"] == "system")


def steps() -> list[Step]:
    """What is asked; an engine may refuse some, which says only that nobody can use such prompts there."""
    found: list[Step] = []
    for system in ([{"role": "system", "content": _SYSTEM}], []):
        for reply in _REPLIES:
            found += _talk(Feature.NONE, system, {"role": "assistant", "content": reply})
        thought = f"<think>\n{_THOUGHT}\n</think>\n\nok"
        found += _talk(Feature.THINKING, system, {"role": "assistant", "content": thought})
        said = {"role": "assistant", "content": "ok", "reasoning": _THOUGHT, "reasoning_content": _THOUGHT}
        found += _talk(Feature.THINKING, system, said)
        found += _loop(Feature.TOOLS, system, {"content": None})
        found += _loop(Feature.TOOLS, system, {"content": " I look."})
        found += _loop(_BOTH, system, {"content": f"<think>\n{_THOUGHT}\n</think>\n\nI look."})
        found += _loop(_BOTH, system, {"content": None, "reasoning": _THOUGHT, "reasoning_content": _THOUGHT})
    return found


def _talk(features: Feature, system: Messages, reply: dict[str, Any]) -> list[Step]:
    first: Messages = [*system, {"role": "user", "content": "hi"}]
    second: Messages = [*first, reply, {"role": "user", "content": "more"}]
    third: Messages = [*second, reply, {"role": "user", "content": "end"}]
    return [_step(features, first, second), _step(features, second, third)]


def _loop(features: Feature, system: Messages, calling: dict[str, Any]) -> list[Step]:
    """A question, two steps with a tool, the answer, the next question, and a step with a tool again.

    And a question before the answer: some templates (Kimi K2 Thinking's) go on writing the thinking then, and
    take it out with the answer only. Those do not ask who spoke last, and to set apart does not help.
    """
    first: Messages = [*system, {"role": "user", "content": "Is berth four free?"}]
    second = [*first, *_called("call00001", 4, calling)]
    third = [*second, *_called("call00002", 6, calling)]
    done: Messages = [{"role": "assistant", "content": "Both are."}, {"role": "user", "content": "Thanks."}]
    closed = [*third, *done]
    asked: Messages = [*third, {"role": "user", "content": "And who is the pilot?"}]
    return [
        _step(features, first, second, _TOOLS),
        _step(features, second, third, _TOOLS),
        _step(features, third, closed, _TOOLS, closes=False),
        _step(features, first, closed, _TOOLS, closes=True),
        _step(features, closed, [*closed, *_called("call00003", 8, calling)], _TOOLS),
        _step(features, asked, [*asked, *done], _TOOLS),
    ]


def _called(id: str, berth: int, calling: dict[str, Any]) -> Messages:
    function = {"name": "berth", "arguments": f'{{"number": {berth}}}'}
    call = {"id": id, "type": "function", "function": function}
    return [
        {"role": "assistant", **calling, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "It is free until noon."},
    ]


def _step(
    features: Feature,
    before: Messages,
    after: Messages,
    tools: list[dict[str, Any]] | None = None,
    closes: bool | None = None,
) -> Step:
    rest: dict[str, Any] = {} if tools is None else {"tools": tools}
    return Step(features, {"messages": before, **rest}, {"messages": after, **rest}, closes)


class Probed(Struct, frozen=True):
    """What a template was found to do: its tail with each kind of prompt, a name for all it wrote.

    `apart`: the tails where the thinking of open loops is set apart.
    """

    tails: Mapping[Feature, int]
    apart: Mapping[Feature, int]
    print: int
    marker: Marker | None = None

    @property
    def are_loops_apart(self) -> bool:
        """Whether thinking in loops of tools is rewritten as they are closed, and in no other way."""
        return _tail(self.tails, _BOTH) > MOST_TAIL_TOKENS >= _tail(self.apart, _BOTH)

    def may_learn(self, features: Feature, path: str = CHAT) -> bool:
        """Whether prompts with these features go on where the one before ended. Of other APIs than chat it is
        not looked which loop is open."""
        tails = self.apart if self.are_loops_apart and path == CHAT else self.tails
        return _tail(tails, Feature.NONE) <= MOST_TAIL_TOKENS and _tail(tails, features) <= MOST_TAIL_TOKENS

    @property
    def tail_tokens(self) -> int:
        """By how much a promise is less than the prompt: the longest tail of those that may be learned."""
        tails = (*self.tails.values(), *self.apart.values())
        return max((tail for tail in tails if tail <= MOST_TAIL_TOKENS), default=0)


def _tail(tails: Mapping[Feature, int], features: Feature) -> int:
    return max((tail for kind, tail in tails.items() if kind & features == kind), default=0)


def probed(
    asked: Sequence[Step], ids: Sequence[tuple[Sequence[int] | None, Sequence[int] | None]]
) -> Probed | None:
    """What the answers to `asked` say; None in `ids` is a refusal. None when no plain step was answered."""
    tails: dict[Feature, int] = {}
    apart: dict[Feature, int] = {}
    prints = 0
    plain: list[tuple[int, Sequence[int]]] = []
    for step, (before, after) in zip(asked, ids, strict=True):
        kind = step.features
        if not before or not after:
            if step.closes:  # what is not known does not set loops apart
                apart[kind] = MOST_TAIL_TOKENS + 1
            continue
        tail = len(before) - _common(before, after)
        if step.closes is not True:
            tails[kind] = max(tails.get(kind, 0), tail)
        if step.closes is not False or kind != _BOTH:
            apart[kind] = max(apart.get(kind, 0), tail)
        if kind is Feature.NONE and step.has_system:
            plain += [(len(step.before["messages"]), before), (len(step.after["messages"]), after)]
        prints = xxh3_64_intdigest(repr((before, after)).encode(), prints)
    return Probed(tails, apart, prints, marker(plain)) if Feature.NONE in tails else None


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
