"""Which blocks does a prompt become without a tokenizer?  Keyed hashes of equal pieces of its text.

A block stands for `block_tokens` tokens and is cut after as many bytes as those take on average, so that two
prompts with the same beginning have the same first blocks.  An id is 31 bits of a keyed BLAKE2b over the
block and all before it: other tools keep ids as 32-bit numbers, and nobody without the key can try texts
against it.
"""

from collections.abc import Iterator
from hashlib import blake2b

_PERSON = b"sl-blocks"
_BITS = 0x7FFF_FFFF


def block_ids(text: bytes, *, seed: bytes, key: bytes, cut_bytes: int, count: int | None = None) -> list[int]:
    """The ids of a prompt's blocks, the last one partial.

    `seed` sets prompts apart that share nothing however alike they are (other models, other salts).  `count`
    is how many there must be, where the engine counted the tokens: blocks beyond are left off, and lacking
    ones are named after the whole text, which no other prompt then shares.
    """
    if cut_bytes < 1:
        raise ValueError(f"cut_bytes must be at least 1, not {cut_bytes}")
    ids: list[int] = []
    link = _hashed(seed, key)
    for block in _pieces(text, cut_bytes):
        if count is not None and len(ids) >= count:
            return ids
        link = _hashed(link + block, key)
        ids.append(int.from_bytes(link[:4], "big") & _BITS)
    while count is not None and len(ids) < count:
        link = _hashed(link, key)
        ids.append(int.from_bytes(link[:4], "big") & _BITS)
    return ids


def blocks_of(tokens: int, block_tokens: int) -> int:
    """How many blocks so many tokens are."""
    return -(-tokens // block_tokens)


def _pieces(text: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _hashed(content: bytes, key: bytes) -> bytes:
    return blake2b(content, digest_size=16, key=key[:64], person=_PERSON).digest()
