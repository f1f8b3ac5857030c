"""How are words of others printed?  Engines, GPUs and logs say what they like; no terminal obeys it."""

from typing import Final

_KEPT: Final = "\t\n"
_ORDERS: Final = (
    range(0x20),
    range(0x7F, 0xA0),
    range(0x202A, 0x202F),
    range(0x2066, 0x206A),
)
_SHOWN: Final = {code: "·" for codes in _ORDERS for code in codes if chr(code) not in _KEPT}


def plain(text: str) -> str:
    """The text with a dot for each character that commands a terminal or turns its lines around.

    Ends of lines and tabs stay.
    """
    return text.translate(_SHOWN)
