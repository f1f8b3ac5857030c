"""Which experiments would send conversations twice to an arm that cannot keep the two apart?"""

from collections.abc import Iterator, Mapping

from config.complaint import Complaint, ConfigError
from config.schema import Config
from wire.dialect import dialect


def complaints(config: Config, kinds: Mapping[str, str], source: str) -> Iterator[Complaint]:
    """Every written rate above 1 with an arm that takes no cache salt: it would find duplicates cached.

    `kinds` are what arms were found to be, by URL; of others nothing is said.
    """
    for at, experiment in enumerate(config.experiments):
        rate = experiment.sample.rate
        if isinstance(rate, str) or rate <= 1.0:
            continue
        for name, _place, arm in experiment.arms:
            kind = kinds.get(arm.engine)
            if kind is not None and not dialect(kind).takes_cache_salt:
                told = "is not known to take one" if kind == "openai" else f"is {kind}"
                yield Complaint(
                    source,
                    ("experiments", at, "sample", "rate"),
                    "auto, or 1 at most, where an arm takes no cache salt",
                    f"{rate:g}",
                    f"{name} {told}, and would find the duplicates of a conversation cached, unlike others",
                )
                break


def fair(config: Config, kinds: Mapping[str, str], source: str) -> Mapping[str, str]:
    """`kinds`, where no experiment is unfair for them.  Raises ConfigError."""
    if found := list(complaints(config, kinds, source)):
        raise ConfigError(found)
    return kinds
