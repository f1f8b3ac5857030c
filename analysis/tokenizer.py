"""How many tokens is a text?  By the model's own tokenizer, where an engine does not say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from analysis.transcript import Choice, Content

Count = Callable[[str], int | None]


class TokenizerError(ValueError):
    """A tokenizer cannot be used; the words say why and what would mend it."""


def load(path: Path) -> Count:
    """What counts a text's tokens by a `tokenizer.json`, special ones left out.  Raises TokenizerError.

    What the file says of truncation and padding is for batches of a model, and would make every count wrong.
    A text that has no tokens in it, as an unknown word where none stands for those, has no number.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise TokenizerError(
            "counting by a tokenizer needs the library tokenizers: pip install tokenizers"
        ) from None
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise TokenizerError(f"{path} cannot be read: {why}") from error
    try:
        found = Tokenizer.from_buffer(data)
    except Exception as error:  # the library raises nothing narrower
        raise TokenizerError(f"{path} is no tokenizer.json: {str(error)[:200]}") from error
    found.no_truncation()
    found.no_padding()

    def count(text: str) -> int | None:
        try:
            return len(found.encode(text, add_special_tokens=False).ids)
        except Exception:  # the library raises nothing narrower
            return None

    return count


class LazyCount:
    """Counts by a tokenizer that is loaded when the first text is to be counted.

    Where it cannot be, `failed(why)` is told once, and the number of a text's tokens is None.
    """

    def __init__(self, path: Path, failed: Callable[[str], object]) -> None:
        self._path = path
        self._failed = failed
        self._tried = False
        self._count: Count | None = None

    def __call__(self, text: str) -> int | None:
        if not self._tried:
            self._tried = True
            try:
                self._count = load(self._path)
            except TokenizerError as error:
                self._failed(str(error))
        return None if self._count is None else self._count(text)


def counted(content: Content, count: Count) -> Content:
    """The content with its tokens counted from its texts, where nobody said how many there are.

    What an engine made of its texts is not told by them: marks around reasoning and calls, and the end, are
    not counted, and words that were made of other tokens than the tokenizer's may be a few more or less.
    """
    if content.opaque or content.token_source not in (None, "chunks"):
        return content
    choices: list[Choice] = []
    total = 0
    for choice in content.choices:
        texts = [choice.text, choice.reasoning]
        texts += [part for call in choice.tool_calls for part in (call.name, call.arguments)]
        tokens = 0
        for text in filter(None, texts):
            found = count(text)
            if found is None:
                return content
            tokens += found
        choices.append(replace(choice, tokens=tokens))
        total += tokens
    if not total:
        return content
    return replace(content, choices=tuple(choices), completion_tokens=total, token_source="tokenizer")
