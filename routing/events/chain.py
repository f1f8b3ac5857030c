"""How is a block of tokens named, so that whoever names it from the same tokens finds it?

An engine's own block hashes are seeded, so they are of use only to that engine's other events.  Blocks
are named from their tokens as Dynamo and SMG do, bit for bit: XXH3-64 of the tokens as little-endian 32-bit
numbers, seed 1337; a block that continues another is named by XXH3-64, seed 1337, of the parent's name and
its own hash, both little-endian.  A LoRA adapter and a cache salt change the seed of the tokens' hash
(Dynamo's `compute_salt_hash`), so that equal tokens under another salt are other blocks.
"""

import sys
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

SEED: Final = 1337
_LORA_SEED: Final = 0
_SALT_SEED: Final = 1
_U64: Final = (1 << 64) - 1
_PAIR: Final = Struct("<QQ").pack
_TOKEN_BYTES: Final = 4


def scope(lora: str = "", salt: str = "") -> int:
    """The seed of blocks under this LoRA adapter and this cache salt; empty is none."""
    seed = SEED
    if lora:
        seed += xxh3_64_intdigest(lora.encode("utf-8", "surrogatepass"), _LORA_SEED)
    if salt:
        seed += xxh3_64_intdigest(salt.encode("utf-8", "surrogatepass"), _SALT_SEED)
    return seed & _U64


def block_chain(tokens: Sequence[int], block_size: int, *, lora: str = "", salt: str = "") -> list[int]:
    """The names of the whole blocks of a prompt, from its first on; a rest that fills no block has none.

    Raises OverflowError for a token that is no unsigned 32-bit number, ValueError for no block size.
    """
    if block_size < 1:
        raise ValueError(f"a block has at least one token, not {block_size}")
    return continued(None, scope(lora, salt), packed(tokens), block_size)


def packed(tokens: Sequence[int]) -> bytes:
    """Tokens as they are hashed.  Raises OverflowError or TypeError for what is no unsigned 32-bit number."""
    numbers = array("I", tokens)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def continued(
    parent: int | None,
    seed: int,
    tokens: bytes,
    block_size: int,
    extras: Sequence[bytes] | None = None,
) -> list[int]:
    """The names of the whole blocks in `tokens`, as `packed`, that continue the block named `parent`.

    `seed` is their `scope`.  `extras[i]`, where not empty, is what else the engine tells block i apart by
    (images, above all): it is hashed behind the tokens.
    """
    width = block_size * _TOKEN_BYTES
    names: list[int] = []
    name = parent
    for at, start in enumerate(range(0, len(tokens) - width + 1, width)):
        block = tokens[start : start + width]
        if extras is not None and extras[at]:
            block += extras[at]
        own = xxh3_64_intdigest(block, seed)
        name = own if name is None else xxh3_64_intdigest(_PAIR(name, own), SEED)
        names.append(name)
    return names
