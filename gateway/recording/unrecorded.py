"""Which recordings are to be replayed and are not there, or have nothing in them?"""

from collections.abc import Iterator
from pathlib import Path

from config.schema import Config


def unrecorded(config: Config) -> Iterator[str]:
    """What experiments are to replay and cannot, as it is not there or empty, each as a sentence."""
    for experiment in config.experiments:
        for file in experiment.replay.files if experiment.replay is not None else ():
            if not file.exists():
                yield (
                    f"experiment {experiment.name}: replay: {file}: there is no such file or folder;"
                    " `shadowlane record` makes one"
                )
            elif why := _nothing(file):
                yield f"experiment {experiment.name}: replay: {why}"


def _nothing(file: Path) -> str | None:
    from workload.formats import is_empty  # not loaded where nothing is replayed
    from workload.traces import TraceError

    try:
        why = is_empty(file)
    except TraceError as error:
        return str(error)
    return None if why is None else f"{file}: {why}"
