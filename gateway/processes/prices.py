"""Which prices does a file, or the configuration, say?  As the analysis wants them."""

from pathlib import Path

from analysis.cost.prices import ArmPrice, Prices
from config.price import Prices as Written
from config.prices import load_prices


def priced(path: Path) -> Prices:
    """ConfigError names the file, the key and the remedy."""
    return prices_of(load_prices(path), str(path))


def prices_of(written: Written, source: str) -> Prices:
    """`source` says where they are written, for whoever has to add one."""
    arms = {arm.name: ArmPrice(arm.per_hour, arm.gpus) for arm in written.arms}
    return Prices(source, written.currency, written.gpus, arms)
