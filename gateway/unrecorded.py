"""Which recordings are to be replayed and are not there?"""

from collections.abc import Iterator

from config.schema import Config


def unrecorded(config: Config) -> Iterator[str]:
    """What experiments are to replay and is not there, each as a sentence."""
    for experiment in config.experiments:
        for file in experiment.replay.files if experiment.replay is not None else ():
            if not file.exists():
                yield (
                    f"experiment {experiment.name}: replay: {file}: there is no such file or folder;"
                    " `shadowlane record` makes one"
                )
