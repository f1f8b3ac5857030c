"""What is known of an answer so far?  A draft that the dialect writes and that ends as `Content`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from analysis.readers._choice import ChoiceDraft
from analysis.transcript import Content, TokenEvent, TokenSource


class Draft:
    """The answer so far. Instants in ns."""

    def __init__(self) -> None:
        self.role_ns: int | None = None
        self.usage_ns: int | None = None
        self.prompt_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.ended = False  # set by protocols that have an explicit end of the whole answer
        self.last_ended = 0  # the choice that was the last to end
        self._choices: dict[int, ChoiceDraft] = {}
        self._events: list[TokenEvent] = []
        self._total: int | None = None
        self._error: str | None = None

    def choice(self, index: int) -> ChoiceDraft:
        """The choice with this index, begun if it is new."""
        found = self._choices.get(index)
        if found is None:
            found = self._choices[index] = ChoiceDraft(index)
        return found

    def token(self, choice: ChoiceDraft, at_ns: int, *, visible: bool) -> None:
        """A token event of a choice came."""
        self._events.append(TokenEvent(at_ns, choice.event(), visible, choice.index))

    def finish(self, choice: ChoiceDraft, reason: str) -> None:
        """A choice ended, as the engine says."""
        choice.finish_reason = reason
        self.last_ended = choice.index

    def usage(
        self,
        at_ns: int,
        prompt: int | None,
        completion: int | None,
        cached: int | None,
        *,
        of: Sequence[int] = (),
    ) -> None:
        """Usage came, cumulative: the last counts. `of`: the choices it came with.

        vLLM, SGLang and llama.cpp count, in a chunk of one choice, that choice alone; without a choice, or
        with several, all of them.
        """
        self.usage_ns = at_ns
        if prompt is not None:
            self.prompt_tokens = prompt
        if cached is not None:
            self.cached_tokens = cached
        if completion is None:
            return
        if len(of) == 1:
            self._counted(self.choice(of[0]), completion)
            return
        self._total = completion
        if len(self._choices) == 1:
            self._counted(next(iter(self._choices.values())), completion)

    def _counted(self, choice: ChoiceDraft, completion: int) -> None:
        new = choice.counts(completion)
        if new is None:
            return
        for place in range(len(self._events) - 1, -1, -1):
            event = self._events[place]
            if event.choice == choice.index:
                if event.tokens is None:
                    self._events[place] = replace(event, tokens=new)
                return

    def fail(self, error: str) -> None:
        """Something went wrong; the first word stands."""
        if self._error is None:
            self._error = error

    def content(self, *, streamed: bool, last_ns: int | None) -> Content:
        """What the draft holds now."""
        tokens, source, each = self._count()
        drafts = [draft for _, draft in sorted(self._choices.items())]
        alone = tokens if len(drafts) == 1 and source != "chunks" else None
        choices = tuple(d.choice(alone if alone is not None else each.get(d.index)) for d in drafts)
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

    def _count(self) -> tuple[int | None, TokenSource | None, dict[int, int]]:
        """How many tokens, who says so, and those of each choice where that is known."""
        told: list[tuple[TokenSource, Callable[[ChoiceDraft], int | None]]] = [
            ("usage", lambda choice: choice.usage_tokens),
            ("token_ids", lambda choice: choice.by_ids),
            ("logprobs", lambda choice: choice.by_logprobs),
        ]
        each: dict[int, int] = {}
        tokens: int | None = self._total
        source: TokenSource | None = None if tokens is None else "usage"
        for name, count in told:
            found = {index: count(choice) for index, choice in self._choices.items()}
            known = {index: n for index, n in found.items() if n is not None}
            if tokens is None and name == "usage" and len(known) == 1 < len(found):
                tokens, source = self._single_total(known)
            if known and len(known) == len(found) and any(known.values()):
                each = each or known
                if tokens is None:
                    tokens, source = sum(known.values()), name
        if tokens is None and self._events:
            tokens, source = len(self._events), "chunks"
        return tokens, source, each

    def _single_total(self, known: dict[int, int]) -> tuple[int | None, TokenSource | None]:
        """A count that came with one choice, the last to end, is of all: who counts each says so at each."""
        ended = all(choice.finish_reason is not None for choice in self._choices.values())
        if ended and self.last_ended in known:
            return known[self.last_ended], "usage"
        return None, None
