"""How much of the experiments' logs is kept?  Which old ones go, and where a log that is full ends."""

from pathlib import Path

from analysis.index import NAME as INDEX
from analysis.spec import Retention

_DAY_S = 86_400.0


def prune(folder: Path, keep: Retention, now_s: float) -> tuple[str, ...]:
    """Delete the logs that were put aside in an experiment's folder, as far as they are too old or too many.

    The oldest go first.  The log in use is never touched.  Gives a notice for each that went.
    """
    aside = [(place.stat().st_mtime, place.stat().st_size, place) for place in folder.glob("log.*.msgpack")]
    aside.sort()
    held = sum(size for _, size, _ in aside)
    notices = []
    for at_s, size, place in aside:
        age_days = (now_s - at_s) / _DAY_S
        if age_days > keep.old_days:
            why = f"it is {age_days:.0f} days old, and {keep.old_days:g} are kept"
        elif held > keep.old_bytes:
            why = f"old logs had {held} bytes, and {keep.old_bytes} are kept"
        else:
            continue
        held -= size
        place.unlink(missing_ok=True)
        place.with_name(f"{place.stem}.{INDEX}").unlink(missing_ok=True)
        notices.append(f"deleted {place.name}: {why}")
    return tuple(notices)
