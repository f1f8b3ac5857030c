"""What text stands for a block whose text nobody knows?  Short words, drawn by the block's id.

The same id is the same text in every prompt and every run, so what shared a prefix shares it again.  Each
word is one token to nearly every tokenizer, and `Scale` corrects for those to which it is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

_WORDS = """
able acid aged also area army away baby back ball band bank base bath bear beat been beer bell belt
best bill bird blow blue boat body bomb bond bone book boom born boss both bowl bulk burn bush busy
call calm came camp card care case cash cast cell chat chip city club coal coat code cold come cook
cool cope copy core cost crew crop dark data date dawn days dead deal dean dear debt deep deny desk
dial diet disc disk does done door dose down draw drew drop drug dual duke dust duty each earn ease
east easy edge else even ever exit face fact fail fair fall farm fast fate fear feed feel feet fell
felt file fill film find fine fire firm fish five flat flow food foot ford form fort four free from
fuel full fund gain game gate gave gear gene gift girl give glad goal goes gold golf gone good gray
grew grey grow gulf hair half hall hand hang hard harm hate have head hear heat held help here hero
high hill hire hold hole holy home hope host hour huge hung hunt hurt idea inch into iron item join
jump jury just keen keep kept kick kind king knee knew know lack lady laid lake land lane last late
lead left less life lift like line link list live load loan lock logo long look lord lose loss lost
love luck made mail main make male many mark mass meal mean meat meet menu mere mile milk mill mind
mine miss mode mood moon more most move much must name navy near neck need news next nice nine none
nose note okay once only onto open oral over pace pack page paid pain pair palm park part pass past
path peak pick pink pipe plan play plot plug plus poll pool poor port post
""".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class Scale:
    """How many tokens an engine makes of a prompt of `n` words: `front + per_word * n`."""

    front: float = 0.0
    per_word: float = 1.0

    @classmethod
    def of(cls, few: tuple[int, int], many: tuple[int, int]) -> "Scale":
        """From two prompts that were counted: (words, tokens) each."""
        per_word = (many[1] - few[1]) / (many[0] - few[0])
        if not 0.2 <= per_word <= 20:
            raise ValueError(f"{many[0]} words and {few[0]} words were {many[1]} and {few[1]} tokens")
        return cls(few[1] - per_word * few[0], per_word)

    def words(self, tokens: float) -> int:
        """How many words those tokens are, without the front."""
        return max(0, round(tokens / self.per_word))


def text_of(
    blocks: Sequence[int],
    block_tokens: int,
    tokens: float,
    scale: Scale,
    *,
    skip: float = 0.0,
    name: str = "",
) -> str:
    """The text of a prompt's tokens from `skip` to `tokens`; what no block names, `name` and the place do.

    The template's own tokens, `scale.front`, are taken off the end.
    """
    words: list[str] = []
    first, last = scale.words(skip), scale.words(max(skip + 1, tokens - scale.front))
    at = number = 0
    while at < last:
        size = max(1, scale.words((number + 1) * block_tokens) - scale.words(number * block_tokens))
        if at + size > first:
            named = _block(str(blocks[number]) if number < len(blocks) else f"{name} {number}", size)
            words += named[max(0, first - at) : max(0, last - at)]
        at, number = at + size, number + 1
    return " ".join(words)


@lru_cache(4096)
def _block(block: str, words: int) -> list[str]:
    rng = Random(block)
    return rng.choices(_WORDS, k=words)
