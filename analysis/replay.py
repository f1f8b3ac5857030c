"""How a log becomes a trial again: the same records, in the same order, into the same code."""

import msgspec

from analysis.ledger import Ledger
from analysis.phases import UNDONE
from analysis.race import Left
from analysis.ranking import Trial
from analysis.store import LogError, LogReader


def replay(past: LogReader, trial: Trial) -> tuple[Ledger, int]:
    """Feed all records of `past` to `trial`; the ledger as of the last books, and the last instant.

    Raises LogError where the log is damaged or holds a record this version does not know.
    """
    ledger = Ledger()
    number = last_ns = 0
    try:
        for kind, body in past:
            number += 1
            if kind == "pair":
                last_ns = max(last_ns, body.at_ns)
                trial.add(body)
            elif kind == "books":
                ledger = Ledger.from_map(body["ledger"])
                trial.books(**body["books"])
                if body.get("replay") is not None:
                    trial.replayed(body["replay"])
            elif kind == "gpu":
                trial.gpus(body)
            elif kind == "engine":
                trial.engine(body)
            elif kind == "golden":
                trial.golden(body)
            elif kind == "similarity":
                trial.similarity(body)
            elif kind == "load":
                trial.load(body)
            elif kind == "late":
                trial.late(body)
            elif kind == "left":
                trial.leave(msgspec.convert(body, Left))
            elif kind in UNDONE:
                trial.undone(UNDONE[kind], str(body["why"]))
            elif kind == "calibrated" and trial.calibration is None:
                trial.calibrate(body)
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
        raise LogError(f"record {number} of the log is not one this Shadowlane knows ({error!r})") from error
    return ledger, last_ns
