"""Under which conditions did the arms run, in lines of text?  Load, GPUs, forced tokens, unjudged pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.modes import AGAINST, LIVE

Json = Mapping[str, Any]
_GIB = 1 << 30
LATENCIES = (("itl", "ITL"), ("tpot", "TPOT"), ("e2e", "E2E"))


def condition_lines(ranking: Json) -> list[str]:
    """Everything that is known; nothing of what is not."""
    return [
        *calibration_lines(ranking),
        *load_lines(ranking),
        *hardware_lines(ranking),
        *forced_lines(ranking),
        *similarity_lines(ranking),
        *marked_lines(ranking),
    ]


def calibration_lines(ranking: Json) -> list[str]:
    """With what the control was compared that is the control, too, and what that fixed; once it is over."""
    calibration: Json = ranking.get("calibration") or {}
    if calibration.get("by") is None:
        return []
    fixed = f"{calibration['pairs']} pairs"
    if ranking.get("mode", LIVE) == LIVE:
        fixed += f"; windows of {ranking['window_s']:.1f} s (pairs depend over {ranking['tau_pairs']:.1f})"
    return [f"calibration: control against {AGAINST[calibration['by']]}, {fixed}"]


def load_lines(ranking: Json) -> list[str]:
    """Requests in flight of each arm and of one production engine, and how the share copied is set."""
    load: Json = ranking.get("load") or {}
    arms: Json = load.get("arms") or {}
    if not arms:
        return []
    said = [f"{name} {mean:.1f}" for name, mean in arms.items()]
    production, share = load.get("production"), load.get("control_of_production")
    if production is not None:
        of = f" (the control has {share:.2f} times that)" if share is not None else ""
        said.append(f"one production engine {production:.1f}{of}")
    rate = load.get("rate")
    how = "matched to production" if load.get("matched") else "as written"
    told = "" if rate is None else f"; each conversation copied {rate:.2f} times on average, {how}"
    return [f"requests in flight: {', '.join(said)}{told}"]


def hardware_lines(ranking: Json) -> list[str]:
    """One line for each GPU of each arm: means over its readings, and what held its clock back."""
    hardware: Json = ranking.get("hardware") or {}
    return [
        f"{arm}, {gpu.get('name') or 'GPU'} {gpu['uuid']}: {', '.join(gpu_facts(gpu)) or 'no figures'}"
        for arm, told in hardware.items()
        for gpu in told["gpus"]
    ]


def gpu_facts(gpu: Json) -> list[str]:
    """What is known of one GPU, each with its unit."""
    facts = []
    if gpu.get("utilisation") is not None:
        facts.append(f"{gpu['utilisation']:.0%} busy")
    if gpu.get("memory_used_bytes") is not None:
        facts.append(f"{gpu['memory_used_bytes'] / _GIB:.1f} GiB at most")
    if gpu.get("power_w") is not None:
        facts.append(f"{gpu['power_w']:.0f} W")
    if gpu.get("energy_wh") is not None:
        facts.append(f"{gpu['energy_wh']:.2f} Wh")
    if gpu.get("sm_clock_mhz") is not None:
        least = gpu.get("sm_clock_least_mhz")
        facts.append(
            f"{gpu['sm_clock_mhz']:.0f} MHz" + (f" (least {least:.0f})" if least is not None else "")
        )
    if held_back := throttling(gpu):
        facts.append(held_back)
    if gpu.get("xid"):
        facts.append(f"XID {', '.join(map(str, gpu['xid']))}")
    return facts


def throttling(gpu: Json) -> str | None:
    """In which share of the readings the clock was held back, and why; None where no reading tells."""
    if gpu.get("throttled") is None:
        return None
    if not gpu["throttled"]:
        return "never throttled"
    why = ", ".join(f"{reason} {share:.0%}" for reason, share in gpu.get("throttling", {}).items())
    return f"throttled in {gpu['throttled']:.0%} of readings" + (f" ({why})" if why else "")


def forced_lines(ranking: Json) -> list[str]:
    """The phase in which all arms decode the control's tokens: how far it came, and its verdicts."""
    forced: Json = ranking.get("forced") or {}
    if not forced:
        return []
    if forced.get("why"):
        return [f"tokens were not forced: {forced['why']}"]
    far = f"{forced['pairs']} of {forced['wanted_pairs']} pairs"
    lines = [f"at equal content (tokens forced): {far}, {forced['windows']} windows"]
    for name, verdicts in forced["candidates"].items():
        said = [f"{word} {_verdict(verdicts[key])}" for key, word in LATENCIES if key in verdicts]
        lines.append(f"  {name}: {'; '.join(said)}")
    return lines


def similarity_lines(ranking: Json) -> list[str]:
    """How alike answers are in meaning, with the excess over the control's own, and what kept pairs out."""
    asked: Json = ranking.get("similarity") or {}
    if not asked:
        return []
    dropped = ", ".join(f"{reason} {n}" for reason, n in asked["dropped"].items())
    said = [f"{asked['pairs']} pairs", *([f"dropped: {dropped}"] if dropped else [])]
    if asked["why"] is not None:
        said.append(f"not there: {asked['why']}")
    lines = [f"similarity of answers by {asked['model']}: {'; '.join(said)}"]
    for candidate in ranking["candidates"]:
        told = candidate["outputs"]["embedding_similarity"]
        if told["excess"] is not None:
            low, mid, high = (told["excess"][end] for end in ("lower", "value", "upper"))
            lines.append(
                f"  {candidate['name']}: {told['value']:.3f}, the control's own {told['floor']:.3f},"
                f" beyond it {mid:+.3f} ({low:+.3f} … {high:+.3f})"
            )
    return lines


def _verdict(said: Json) -> str:
    if said["ratio"] is None:
        return f"{said['word']} ({said['withheld'] or said['why']})"
    known = said["lower"] is not None and said["upper"] is not None
    interval = f" ({change(said['lower'])} … {change(said['upper'])})" if known else ""
    return f"{said['word']} {change(said['ratio'])}{interval}"


def marked_lines(ranking: Json) -> list[str]:
    """Pairs that are kept and not judged, by why."""
    counts: Json = {**(ranking.get("marked_pairs") or {}), "out of phase": ranking.get("unused_pairs")}
    said = [f"{why} {n}" for why, n in counts.items() if n]
    return [f"pairs kept and not judged: {', '.join(said)}"] if said else []


def change(ratio: float | None) -> str:
    """A ratio as a change in per cent: 0.75 is -25.0 %; – when unknown."""
    return "–" if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells under one another; the last column as long as it is."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
