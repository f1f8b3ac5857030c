"""What is known of an answer so far?  A draft that the dialect writes and that ends as `Content`."""

from dataclasses import dataclass, field

from analysis.transcript import Choice, Content, TokenEvent, TokenSource, ToolCall


@dataclass(slots=True)
class _ToolDraft:
    key: int | None
    id: str | None
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ChoiceDraft:
    """One choice being written."""

    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    tools: list[_ToolDraft] = field(default_factory=list)
    finish_reason: str | None = None

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


class Draft:
    """The answer so far. Instants in ns."""

    def __init__(self) -> None:
        self.role_ns: int | None = None
        self.usage_ns: int | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.ended = False  # set by protocols that have an explicit end of the whole answer
        self._choices: dict[int, ChoiceDraft] = {}
        self._events: list[TokenEvent] = []
        self._usage_tokens: int | None = None
        self._id_tokens = 0
        self._ids_complete = True
        self._each_counted = True  # every token event so far came with a usage of its own
        self._error: str | None = None

    def choice(self, index: int) -> ChoiceDraft:
        """The choice with this index, begun if it is new."""
        found = self._choices.get(index)
        if found is None:
            found = self._choices[index] = ChoiceDraft()
        return found

    def token(self, at_ns: int, *, visible: bool, ids: int | None = None) -> None:
        """A token event came, with `ids` token ids where the engine sends them."""
        if ids:
            self._id_tokens += ids
        else:
            self._ids_complete = False
        self._events.append(TokenEvent(at_ns, ids or None, visible))

    def usage(
        self, at_ns: int, prompt: int | None, completion: int | None, cached: int | None, *, begun: int
    ) -> None:
        """Usage came: the last counts. `begun` is what `events` was before the chunk that it came with."""
        self.usage_ns = at_ns
        if prompt is not None:
            self.prompt_tokens = prompt
        if cached is not None:
            self.cached_tokens = cached
        if completion is None:
            return
        new = completion - (self._usage_tokens or 0)
        if self._each_counted and len(self._events) == begun + 1:
            event = self._events[-1]
            if new > 0 and event.tokens is None:
                self._events[-1] = TokenEvent(event.at_ns, new, event.visible)
        self._usage_tokens = completion

    @property
    def events(self) -> int:
        """How many token events came."""
        return len(self._events)

    def uncounted(self) -> None:
        """The last chunk had tokens and no usage: later differences of usage span several events."""
        self._each_counted = False

    def fail(self, error: str) -> None:
        """Something went wrong; the first word stands."""
        if self._error is None:
            self._error = error

    def content(self, *, streamed: bool, last_ns: int | None) -> Content:
        """What the draft holds now."""
        source: TokenSource | None = None
        tokens: int | None = None
        if self._usage_tokens is not None:
            source, tokens = "usage", self._usage_tokens
        elif self._id_tokens and self._ids_complete:
            source, tokens = "token_ids", self._id_tokens
        elif self._events:
            source, tokens = "events", len(self._events)
        choices = tuple(
            Choice(
                index=index,
                text="".join(draft.texts),
                reasoning="".join(draft.reasonings),
                tool_calls=tuple(ToolCall("".join(t.names), "".join(t.arguments)) for t in draft.tools),
                finish_reason=draft.finish_reason,
            )
            for index, draft in sorted(self._choices.items())
        )
        return Content(
            streamed=streamed,
            role_ns=self.role_ns,
            token_events=tuple(self._events),
            usage_ns=self.usage_ns,
            last_ns=last_ns,
            choices=choices,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=tokens,
            cached_tokens=self.cached_tokens,
            token_source=source,
            finished=self.ended or (bool(choices) and all(c.finish_reason is not None for c in choices)),
            error=self._error,
        )
