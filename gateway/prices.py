"""Which prices does a file say?  As the analysis wants them."""

from pathlib import Path

from analysis.cost.prices import ArmPrice, Prices
from config.prices import load_prices


def priced(path: Path) -> Prices:
    """ConfigError names the file, the key and the remedy."""
    read = load_prices(path)
    arms = {arm.name: ArmPrice(arm.per_hour, arm.gpus) for arm in read.arms}
    return Prices(str(path), read.currency, read.gpus, arms)
