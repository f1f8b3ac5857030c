"""How far from the truth were the foretold numbers?  Counts, shares and the distribution of errors."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

EDGES = (-1024, -512, -256, -128, -64, -32, -16, -1, 0, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Told:
    """One answer: tokens foretold (None: nothing was known), cached by the engine, of the prompt."""

    kind: str
    turn: int
    engine: int
    foretold: int | None
    cached: int
    prompt: int
    oracle: int | None = None

    @property
    def error(self) -> int:
        return (self.foretold or 0) - self.cached


def found_share(told: Sequence[Told]) -> float:
    """Of the tokens that engines had cached, those that were foretold."""
    return sum(min(one.foretold or 0, one.cached) for one in told) / max(1, sum(one.cached for one in told))


def too_high_share(told: Sequence[Told]) -> float:
    """Requests of which more was foretold than was cached."""
    return sum(one.error > 0 for one in told) / max(1, len(told))


def quantile(values: Sequence[int], share: float) -> int:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


HEADS = (
    "", "requests", "cached", "found", "exact", "|error| mean", "p50", "p90", "p99", "too high", "> 2 blocks",
    "most",
)  # fmt: skip


def row(
    name: str, told: Sequence[Told], block: int, error: Callable[[Told], int] = lambda one: one.error
) -> list[str]:
    """One line of the table."""
    errors = [error(one) for one in told]
    sizes = [abs(one) for one in errors]
    high = [one for one in errors if one > 0]
    cached = sum(one.cached for one in told)
    found = sum(one.cached + min(0, wrong) for one, wrong in zip(told, errors, strict=True))
    count = max(1, len(told))
    return [
        name,
        str(len(told)),
        f"{cached / count:.0f}",
        f"{100 * found / max(1, cached):.1f} %",
        f"{100 * sum(one == 0 for one in errors) / count:.1f} %",
        f"{sum(sizes) / count:.1f}",
        *(str(quantile(sizes, share)) for share in (0.5, 0.9, 0.99)),
        f"{100 * len(high) / count:.2f} %",
        f"{100 * sum(one > 2 * block for one in high) / count:.2f} %",
        str(max(high, default=0)),
    ]


def distribution(told: Sequence[Told]) -> str:
    """Errors by bucket, foretold less cached, in tokens."""
    counts: Counter[int] = Counter()
    for one in told:
        counts[next((at for at, edge in enumerate(EDGES) if one.error <= edge), len(EDGES))] += 1
    lines = []
    for at in range(len(EDGES) + 1):
        if not counts[at]:
            continue
        if at == len(EDGES):
            name = f"> {EDGES[-1]}"
        elif EDGES[at] == 0:
            name = "0"
        else:
            name = f"{'-inf' if at == 0 else EDGES[at - 1] + 1} .. {EDGES[at]}"
        share = counts[at] / len(told)
        lines.append(f"  {name:>16}  {counts[at]:6}  {100 * share:6.2f} %  {'#' * round(60 * share)}")
    return "\n".join(lines)
