"""What is known of one choice of an answer so far, and how many tokens of it?"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from analysis.transcript import Choice, TokenLogprob, ToolCall


@dataclass(slots=True)
class _ToolDraft:
    key: int | None
    id: str | None
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ChoiceDraft:
    """One choice being written.

    `usage_tokens`: what the engine said it has of this choice alone; `counted` of them are laid on events,
    and `open_events` came since. `loose_*` are told tokens that no event has yet: of one that is held back.
    """

    index: int
    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    tools: list[_ToolDraft] = field(default_factory=list)
    finish_reason: str | None = None
    usage_tokens: int | None = None
    counted: int = 0
    open_events: int = 0
    events: int = 0
    ids: list[int] = field(default_factory=list)
    loose_ids: int = 0
    ids_complete: bool = True
    logprobs: list[TokenLogprob] = field(default_factory=list)
    loose_logprobs: int = 0
    logprobs_complete: bool = True

    def tool(self, key: int | None, call_id: str | None, name: str | None, arguments: str | None) -> bool:
        """Adds a fragment to the call of this index (and id, where ids contradict); True if it says more."""
        if not (call_id or name or arguments):
            return False
        found = None
        for call in reversed(self.tools):
            if call.key == key and (not call_id or not call.id or call.id == call_id):
                found = call
                break
        if found is None:
            found = _ToolDraft(key, call_id)
            self.tools.append(found)
        if call_id and not found.id:
            found.id = call_id
        if name:
            found.names.append(name)
        if arguments:
            found.arguments.append(arguments)
        return bool(name or arguments)

    def told(self, ids: Sequence[int] | None, logprobs: Sequence[TokenLogprob] | None) -> None:
        """The engine named tokens, whether or not it said anything with them."""
        if ids:
            self.ids += ids
            self.loose_ids += len(ids)
        if logprobs:
            self.logprobs += logprobs
            self.loose_logprobs += len(logprobs)

    def event(self) -> int | None:
        """A token event came: how many tokens since the one before, None where nobody said (yet)."""
        self.events += 1
        self.open_events += 1
        ids, self.loose_ids = self.loose_ids, 0
        logprobs, self.loose_logprobs = self.loose_logprobs, 0
        self.ids_complete = self.ids_complete and ids > 0
        self.logprobs_complete = self.logprobs_complete and logprobs > 0
        return ids or logprobs or None

    def counts(self, completion: int) -> int | None:
        """It has so many tokens now: those of its last event, None where they are of several or of none."""
        self.usage_tokens = completion
        if not self.open_events:
            return None  # what comes before an event is counted with it
        new, single = completion - self.counted, self.open_events == 1
        self.counted, self.open_events = completion, 0
        return new if single and new > 0 else None

    @property
    def by_ids(self) -> int | None:
        """How many token ids came; None where some of its tokens came without."""
        return len(self.ids) if self.ids_complete else None

    @property
    def by_logprobs(self) -> int | None:
        """How many logprobs came; None where some of its tokens came without."""
        return len(self.logprobs) if self.logprobs_complete else None

    def choice(self, tokens: int | None) -> Choice:
        """What it holds now; `tokens` is how many it has, where that is known."""
        return Choice(
            index=self.index,
            text="".join(self.texts),
            reasoning="".join(self.reasonings),
            tool_calls=tuple(ToolCall("".join(t.names), "".join(t.arguments)) for t in self.tools),
            finish_reason=self.finish_reason,
            tokens=tokens,
            token_ids=tuple(self.ids) if self.ids and self.ids_complete else None,
            logprobs=tuple(self.logprobs) if self.logprobs and self.logprobs_complete else None,
        )
