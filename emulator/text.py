"""How text becomes token ids and comes back, without a vocabulary file.

A token is a word piece of one to four letters (with the space before it and a capital first letter), up
to three digits, a run of spaces, or one UTF-8 byte; its id is computed from its letters. English comes to
about four characters a token, and every text round-trips.
"""

import codecs
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

IM_START, IM_END, END_OF_TEXT = 256, 257, 258
SPECIALS = {IM_START: "<|im_start|>", IM_END: "<|im_end|>", END_OF_TEXT: "<|endoftext|>"}

_DIGITS = 300  # 10 + 100 + 1000 numerals
_SPACES = _DIGITS + 1110  # runs of 2..16 spaces
_WORDS = 2048
_LENGTH_OFFSET = (0, 26, 26 + 26**2, 26 + 26**2 + 26**3)
_PIECES = 26 + 26**2 + 26**3 + 26**4
VOCABULARY = _WORDS + 4 * _PIECES

_PIECE = re.compile(r" ?[A-Z][a-z]{0,3}| ?[a-z]{1,4}|[0-9]{1,3}| {2,16}|[^\x00-\x7f]+|[\x00-\x7f]")


class UnknownToken(ValueError):
    """A token id outside the vocabulary."""


class _PieceIds(dict[str, int]):
    """Piece to id, computed when first asked for."""

    def __missing__(self, piece: str) -> int:
        self[piece] = token = _id_of(piece)
        return token


class _TokenBytes(dict[int, bytes]):
    """Id to the bytes it stands for, computed when first asked for."""

    def __missing__(self, token: int) -> bytes:
        self[token] = text = _bytes_of(token)
        return text


class Tokenizer:
    """Deterministic, stateless but for its caches."""

    def __init__(self, cached_texts: int = 2048) -> None:
        self._ids = _PieceIds()
        self._bytes = _TokenBytes()
        self.encode = lru_cache(cached_texts)(self._encode)
        """Token ids of a text; conversations repeat their texts, so these are kept."""

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of `tokens`; bytes that are not UTF-8 become U+FFFD.  UnknownToken if an id is none."""
        return b"".join(map(self._bytes.__getitem__, tokens)).decode("utf-8", "replace")

    def deltas(self, tokens: Sequence[int]) -> list[str]:
        """What each token adds to the text; a character shows with the last of its bytes, as in vLLM."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        texts = [decoder.decode(self._bytes[token]) for token in tokens]
        if texts and (rest := decoder.decode(b"", True)):
            texts[-1] += rest
        return texts

    def token_text(self, token: int) -> str:
        """One token alone, as logprobs and `token_strs` show it."""
        return self._bytes[token].decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """One token's bytes."""
        return self._bytes[token]

    def _encode(self, text: str) -> tuple[int, ...]:
        pieces = _PIECE.findall(text)
        ids = self._ids
        if text.isascii():
            return tuple(map(ids.__getitem__, pieces))
        tokens: list[int] = []
        for piece in pieces:
            if piece.isascii():
                tokens.append(ids[piece])
            else:
                tokens.extend(piece.encode("utf-8", "surrogatepass"))
        return tuple(tokens)


def _id_of(piece: str) -> int:
    letters = piece.removeprefix(" ")
    if letters.isalpha():
        value = 0
        for letter in letters.lower():
            value = value * 26 + ord(letter) - 97
        variant = 2 * (letters is not piece and letters != piece) + letters[0].isupper()
        return _WORDS + variant * _PIECES + _LENGTH_OFFSET[len(letters) - 1] + value
    if piece.isdigit():
        return _DIGITS + (0, 10, 110)[len(piece) - 1] + int(piece)
    if len(piece) > 1:
        return _SPACES + len(piece) - 2
    return ord(piece)


def _bytes_of(token: int) -> bytes:
    if 0 <= token < 256:
        return bytes((token,))
    if token in SPECIALS:
        return SPECIALS[token].encode()
    if _WORDS <= token < VOCABULARY:
        variant, value = divmod(token - _WORDS, _PIECES)
        length = max(n for n in range(4) if value >= _LENGTH_OFFSET[n])
        value -= _LENGTH_OFFSET[length]
        letters = ""
        for _ in range(length + 1):
            value, letter = divmod(value, 26)
            letters = chr(97 + letter) + letters
        if variant & 1:
            letters = letters.capitalize()
        return (" " + letters if variant & 2 else letters).encode()
    if _DIGITS <= token < _SPACES:
        value = token - _DIGITS
        length = 1 if value < 10 else 2 if value < 110 else 3
        return f"{value - (0, 10, 110)[length - 1]:0{length}d}".encode()
    if _SPACES <= token < _SPACES + 15:
        return b" " * (token - _SPACES + 2)
    raise UnknownToken(f"token id {token} is not in the vocabulary of {VOCABULARY}")
