"""How do a command's {port}, {host}, {gpus}, {name} and {model} become what is run?"""

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{([a-z]+)\}")


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with each known {word} replaced; all other braces stay: flags may hold JSON."""
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), text)
