"""`python -m bench.verdicts`: how often verdicts are wrong, how soon they come, and the usual practice's."""

import argparse
from collections.abc import Iterator
from math import inf, log, sqrt
from statistics import median

import numpy as np

from analysis.metrics._metric import Unit
from analysis.verdict import DIVERGENCE_MARGIN
from bench.verdicts.given import PAIRS as SCORED_PAIRS
from bench.verdicts.given import RARE, misses
from bench.verdicts.ours import ALPHA, calibration, failure_look, fair_is_withheld, looks, mcnemar_look
from bench.verdicts.racing import ALIKE, APART, CLOSE, RULES, raced
from bench.verdicts.scenes import SCENES, SPREAD, Floats, Run, Scene, draw, failures
from bench.verdicts.scores import (
    DEPENDENCES,
    KINDS,
    falsely_the_same,
    falsely_within,
    pairs_until,
    pairs_until_the_same,
    scored,
)
from bench.verdicts.tails import SHARES, STALLS, missed
from bench.verdicts.usual import PRACTICES, Said

PAIRS = 5_000  # after the calibration
CALIBRATION = 500  # at most
LONG = 40_000  # pairs, where many are needed
CANDIDATES = 8
SEED = 20_000
BOUNDS: tuple[tuple[str, Unit, float], ...] = (
    ("length_ratio 1.05", "ratio", log(1.05)),
    ("length_ratio 1.1", "ratio", log(1.1)),
    ("kl_k3 0.02", "nats", 0.02),
    ("kl_k3 0.05", "nats", 0.05),
)
EITHER, FASTER, SLOWER = "either", "FASTER", "SLOWER"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.verdicts", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="simulated experiments in each scene (1000)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the first one ({SEED})")
    asked = parser.parse_args()
    error = 2 * sqrt(ALPHA * (1 - ALPHA) / asked.runs)
    print(f"{asked.runs} runs of {PAIRS} pairs, alpha {ALPHA}; a share of {ALPHA} is good to ±{error:.3f}\n")
    _wrong(asked.runs, asked.seed)
    _usual(max(1, asked.runs // 3), asked.seed)
    _power(max(1, asked.runs // 4), asked.seed)
    _failures(max(1, asked.runs * 3 // 2), asked.seed)
    _scores(range(asked.seed, asked.seed + asked.runs))
    _given(range(asked.seed, asked.seed + max(1, asked.runs // 2)))
    _tails(range(asked.seed, asked.seed + max(1, asked.runs // 5)))
    _races(range(asked.seed, asked.seed + max(1, asked.runs // 4)))


def _runs(scene: Scene, runs: range, pairs: int, effect: float = 0.0, candidates: int = 1) -> Iterator[Run]:
    return (draw(scene, CALIBRATION + pairs, seed, effect, candidates) for seed in runs)


def _wrong(runs: int, seed: int) -> None:
    """How often we are wrong where nothing differs, at some look."""
    print("Nothing differs: the share of runs in which, at any look after any window, …")
    _row("scene", "truth missed", "called other", "promotable", "truth of one of 8 missed")
    for scene in SCENES:
        label = FASTER if scene.loses_slowest else EITHER  # what fails is slower, and may be called so
        missed = other = promoted = family = 0
        for run in _runs(scene, range(seed, seed + runs), PAIRS):
            said = looks(run)[0]
            missed += said.misses()
            other += said.says(label) is not None
            promoted += said.promotes() is not None
        for run in _runs(scene, range(seed + runs, seed + 2 * runs), PAIRS, candidates=CANDIDATES):
            family += any(
                one.says(FASTER) is not None if scene.loses_slowest else one.misses() for one in looks(run)
            )
        truth = "–" if scene.loses_slowest else f"{missed / runs:.3f}"
        _row(scene.name, truth, f"{other / runs:.3f}", f"{promoted / runs:.3f}", f"{family / runs:.3f}")
    print(
        "missing: the candidate fails its slowest twentieth; silent: it never answers it, and the lane drops"
    )
    print("the slowest moments' copies for all arms; of both, the share that is called faster\n")
    print("The control against itself: the share of runs in which the calibration finds it to differ")
    for scene in SCENES[:4]:
        differs = sum(fair_is_withheld(run) for run in _runs(scene, range(seed, seed + 2 * runs), 0))
        _row(scene.name, f"{differs / (2 * runs):.4f}")
    print()
    print("The effect goes from nothing to 10 %: the share of runs in which the mean effect so far is missed")
    drifting = next(scene for scene in SCENES if scene.drift)
    missed = sum(
        looks(run)[0].misses() for run in _runs(drifting, range(seed, seed + runs), PAIRS, log(1.05))
    )
    _row(drifting.name, f"{missed / runs:.3f}")
    print()


def _usual(runs: int, seed: int) -> None:
    """How often the usual practice is wrong in the same scenes."""
    print("The usual practice, nothing differs: the share called other (faster, where answers are missing)")
    _row("practice", *(scene.name for scene in SCENES))
    for name, practice in PRACTICES.items():
        row = []
        for scene in SCENES:
            said = [practice(*_split(run)) for run in _runs(scene, range(seed, seed + runs), PAIRS)]
            wrong = sum(one is not None and (one[1] < 0 or not scene.loses_slowest) for one in said)
            row.append(f"{wrong / runs:.3f}")
        _row(name, *row)
    print()


def _split(run: Run) -> tuple[Floats, Floats]:
    """What the usual practice sees after the calibration: each arm's own requests, and answers that came."""
    candidate = run.candidates[0, CALIBRATION:]
    return run.apart[CALIBRATION:], candidate[np.isfinite(candidate)]


def _power(runs: int, seed: int) -> None:
    """How many pairs until a slowdown of 5 % is seen."""
    print(
        f"A candidate slower by 5 %, log-spread of pairs {SPREAD}: pairs after the calibration, in the median"
    )
    _row("scene", "zero excluded", "beyond 3 %", "pairs a window")
    for scene in SCENES[:3]:
        zero, called, sizes = [], [], []
        pairs = LONG if scene.rho else LONG // 4
        for run in _runs(scene, range(seed, seed + runs), pairs, log(1.05)):
            said = looks(run)[0]
            zero.append(said.excludes_zero())
            called.append(said.says(SLOWER))
            sizes.append(calibration(run)[1])
        _row(scene.name, _median(zero), _median(called), f"{median(sizes):.0f}")
    print("\nThe usual practice, independent requests: of each arm, until the candidate is called other")
    _row("practice", "requests", "called slower", "faster", "never")
    for name, practice in PRACTICES.items():
        slower = _runs(SCENES[0], range(seed, seed + runs // 2), LONG // 2, log(1.05))
        calls = [practice(*_split(run)) for run in slower]
        shares = (sum(_way(one) == way for one in calls) / len(calls) for way in (1, -1, 0))
        needed = _median([None if one is None else one[0] for one in calls])
        _row(name, needed, *(f"{share:.2f}" for share in shares))
    print()


def _way(said: Said) -> int:
    return 0 if said is None else said[1]


def _failures(runs: int, seed: int) -> None:
    """Failures: how often wrong where both arms fail 5 %, and how soon 5 % and 10 % are told apart."""
    print("Failures of 5 % in all arms, called more or fewer at any look; of 5 % and 10 %, pairs needed")
    _row("scene", "windows: wrong", "of 8", "needed", "single pairs: wrong", "needed")
    independent, some, much = SCENES[:3]
    for scene, alike, burst in [
        *((independent, 0.0, 1), (independent, 0.7, 1), (some, 0.0, 1), (much, 0.0, 1)),
        *((independent, 0.0, 3), (independent, 0.0, 10)),
    ]:
        same, more, of_eight = [], [], 0
        for number in range(seed, seed + runs):
            taken, size = calibration(draw(scene, CALIBRATION, number))
            all_alike = (0.05,) * (1 + CANDIDATES)
            equal = failures(scene, CALIBRATION + PAIRS, number, all_alike, alike, burst)
            worse = failures(scene, CALIBRATION + LONG // 4, number, (0.05, 0.10), alike, burst)
            same.append((failure_look(equal[:2], taken, size), mcnemar_look(equal[:2])))
            more.append((failure_look(worse, taken, size), mcnemar_look(worse)))
            of_eight += any(
                failure_look(equal[[0, other]], taken, size, ALPHA / CANDIDATES) is not None
                for other in range(1, 1 + CANDIDATES)
            )
        wrong = [f"{sum(found[way] is not None for found in same) / runs:.3f}" for way in (0, 1)]
        needed = [_median([found[way] for found in more]) for way in (0, 1)]
        name = f"{scene.name}, arms alike {alike}" if alike else scene.name
        name = f"in bursts of {burst}" if burst > 1 else name
        _row(name, wrong[0], f"{of_eight / runs:.3f}", needed[0], wrong[1], needed[1])
    print("windows: as judged; single pairs: McNemar's e-process, which holds for independent pairs alone")


def _scores(seeds: range) -> None:
    """How often outputs are misjudged where a candidate answers as the control answers itself."""
    print(
        "\nOutputs that differ as the control's do: the share of runs in which, at any look, the true mean is"
    )
    print("missed, the floor is surely left, and DIVERGES is said (which first divergence alone decides)")
    _row("scores, by their neighbours", *(depends.name for depends in DEPENDENCES))
    for kind in KINDS:
        cells = []
        for depends in DEPENDENCES:
            said = [scored(kind, depends, PAIRS, seed) for seed in seeds]
            shares = (
                sum(each) / len(said)
                for each in zip(*((s.missed, s.left_floor, s.diverges) for s in said), strict=True)
            )
            cells.append(" ".join(f"{share:.3f}" for share in shares))
        _row(kind.name, *cells)
    print(
        "\nOf a control that never differs from itself: the share of runs in which a candidate is called SAME"
    )
    print(
        f"that differs in so many answers, from the first letter on (SAME: {DIVERGENCE_MARGIN:.0%} at most)"
    )
    for mean in (0.03, 0.04):
        cells = [
            f"{sum(falsely_the_same(mean, depends, PAIRS, seed) for seed in seeds) / len(seeds):.3f}"
            for depends in DEPENDENCES
        ]
        _row(f"{mean:.0%} of answers", *cells)
    print(f"one that never differs: SAME after {pairs_until_the_same(LONG)} pairs")
    print(
        "\nThe share of runs in which a mean just beyond a bound is said to be within it, at any look, where"
    )
    print("few pairs score the most that counts; and after how many it is said of pairs that are all alike")
    for name, unit, bound in BOUNDS:
        cells = [
            f"{sum(falsely_within(unit, bound, depends, PAIRS, seed) for seed in seeds) / len(seeds):.3f}"
            for depends in DEPENDENCES
        ]
        _row(name, *cells, str(pairs_until(unit, bound, LONG)))


def _given(seeds: range) -> None:
    """How often the scored phase's intervals miss where large scores are rare."""
    print(
        "\nScored tokens, a few pairs of 5 nats: the share of runs in which the mean is missed by an interval"
    )
    print("of the windows' spread alone, and by ours of the mean that counts a pair as a nat at most")
    _row("pairs of 5 nats", *(f"{pairs} pairs" for pairs in SCORED_PAIRS))
    for rare in RARE:
        cells = []
        for pairs in SCORED_PAIRS:
            said = [misses(rare, pairs, seed) for seed in seeds]
            cells.append(" ".join(_share(list(each)) for each in zip(*said, strict=True)))
        _row(rare.name, *cells)


def _tails(seeds: range) -> None:
    """How often a percentile's change is told where answers stall in bursts, and how often it is missed."""
    print("\nArms that are alike, whose answers stall in bursts: the share of runs in which a percentile's")
    print(
        "change is told at that many pairs; and of those in which it is told, the share in which it is missed"
    )
    _row("stalls", "pairs", *(f"p{100 * share:g}" for share in SHARES))
    for stalls in STALLS:
        said = [missed(stalls, seed) for seed in seeds]
        cells = []
        for each in zip(*said, strict=True):
            told = [one for one in each if one is not None]
            cells.append(f"{len(told) / len(said):.2f} {_share(told)}")
        _row(stalls.name, str(stalls.pairs), *cells)


def _races(seeds: range) -> None:
    """What candidates that leave cost and save: eight of them, after the calibration."""
    print(f"\nRaces of {CANDIDATES} candidates, {PAIRS} pairs, {len(seeds)} runs: the share in which the")
    print(
        "best left; in which an interval of any that were in missed at some look; in which there is a winner;"
    )
    print(
        "of these, in which it is the best, and is missed on fresh windows; and the windows that were spared"
    )
    _row(
        "scene, candidates, who leaves", "best left", "missed", "winner", "the best", "fresh missed", "spared"
    )
    for scene in SCENES[:2]:
        for name, effects in (("apart", APART), ("close", CLOSE), ("alike", ALIKE)):
            for rules in RULES:
                said = [raced(scene, effects, rules, PAIRS, seed) for seed in seeds]
                won = [one.wins for one in said if one.wins is not None]
                fresh = [one.fresh_missed for one in said if one.fresh_missed is not None]
                _row(
                    f"{scene.name}, {name}, {rules.name}",
                    _share([one.lost_best for one in said]) if effects is not ALIKE else "–",
                    _share([one.missed for one in said]),
                    f"{len(won) / len(said):.2f}",
                    _share(won) if effects is not ALIKE else "–",
                    _share(fresh),
                    f"{sum(one.spared for one in said) / len(said):.2f}",
                )


def _share(found: list[bool]) -> str:
    return f"{sum(found) / len(found):.3f}" if found else "–"


def _median(found: list[int | None]) -> str:
    middle = median(inf if one is None else one for one in found)
    return "never" if middle == inf else f"{middle:.0f}"


def _row(first: str, *rest: str) -> None:
    print(f"{first:<38}" + "".join(f"{cell:>{max(13, len(cell) + 2)}}" for cell in rest))


if __name__ == "__main__":
    main()
