"""What does an arm cost an hour?  From the GPUs that were read and from prices that somebody wrote down."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArmPrice:
    """What is known of one arm without readings: the price of all of it an hour, and its GPUs' number."""

    per_hour: float | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices an hour: of one GPU, by its name or words of it, and of arms that are priced as a whole.

    `source` is the file they are from.
    """

    source: str
    currency: str = "USD"
    gpus: Mapping[str, float] = field(default_factory=dict)
    arms: Mapping[str, ArmPrice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bill:
    """What an arm's time costs.  A figure that is None is withheld, and its `why` says what would mend it."""

    gpus: int | None
    gpus_why: str | None
    per_hour: float | None
    per_hour_why: str | None


def bill(arm: str, names: Sequence[str | None], prices: Prices | None) -> Bill:
    """The bill of an arm; `names` are those of its GPUs as readings tell them, empty where there are none."""
    written = ArmPrice() if prices is None else prices.arms.get(arm, ArmPrice())
    gpus = len(names) or written.gpus
    unknown = "its GPUs are not known: set its gpus (or dcgm), so that they are read"
    gpus_why = None if gpus else f"{unknown}, or its gpus under arms in a price file"
    if prices is None:
        return Bill(
            gpus,
            gpus_why,
            None,
            "no prices are known: give a price file with --prices (the dashboard: `prices`)",
        )
    if written.per_hour is not None:
        return Bill(gpus, gpus_why, written.per_hour, None)
    if not names:
        return Bill(gpus, gpus_why, None, f"{unknown}, or its per_hour under arms in {prices.source}")
    each = [price_of(name, prices.gpus) for name in names]
    for name, price in zip(names, each, strict=True):
        if price is None:
            what = repr(name) if name else "GPUs whose name no reading tells"
            mend = "add it there (or the arm's per_hour under arms)"
            return Bill(gpus, gpus_why, None, f"{prices.source} has no price of {what} under gpus: {mend}")
    return Bill(gpus, gpus_why, sum(price for price in each if price is not None), None)


def price_of(name: str | None, prices: Mapping[str, float]) -> float | None:
    """The price whose key is the name, or else the longest that stands in it as whole words."""
    if name is None:
        return None
    found = [
        key for key in prices if re.search(rf"(?<!\w){re.escape(key)}(?!\w)", name, re.IGNORECASE) is not None
    ]
    return prices[max(found, key=lambda key: (len(key), key))] if found else None
