"""Can there be a folder where the recording is to go?  Asked before anything starts."""

from config.complaint import Complaint
from config.schema import Config


def complaints(config: Config) -> list[Complaint]:
    """That the recording is to go where a file is.  `source` is left to the loader.

    Whether there is room, and may be written, is for the recording to see: it may change, and nobody who
    serves requests ends for it.
    """
    to = config.record.to
    if to is None:
        return []
    there = next(place for place in (to.absolute(), *to.absolute().parents) if place.exists())
    if there.is_dir():
        return []
    return [Complaint("", ("record", "to"), "a folder for the recording's files", f"the file {there}")]
