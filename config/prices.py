"""What does a price file say?"""

from pathlib import Path

from pydantic import ValidationError

from config import document
from config.complaint import ConfigError
from config.explain import explain
from config.price import Prices


def load_prices(path: Path) -> Prices:
    """The prices in a file.  Raises ConfigError with every mistake, one a line."""
    read = document.read(path, "a price file")
    try:
        return Prices.model_validate(read.settings)
    except ValidationError as error:
        raise ConfigError(explain(error, read, read.settings, Prices)) from None
