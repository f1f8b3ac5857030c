"""Can the policies be built that a configuration names?  Asked before anything starts."""

from collections.abc import Iterator

import routing.policies
from config import plugins
from config.complaint import Complaint, ConfigError, Path
from config.policy import Policy
from config.schema import Config


def complaints(config: Config) -> list[Complaint]:
    """Every policy there is none of, and every setting that does not fit one."""
    found: list[Complaint] = []
    for path, policy in _named(config):
        try:
            plugins.build(routing.policies, policy.name, policy.params, path=path)
        except ConfigError as error:
            found += error.complaints
    return found


def _named(config: Config) -> Iterator[tuple[Path, Policy]]:
    for at, fleet in enumerate(config.fleets):
        yield ("fleets", at, "policy"), fleet.policy
        for number, one in enumerate(fleet.score.policies):
            yield ("fleets", at, "score", "policies", number), one
        yield ("fleets", at, "split", "decode"), fleet.split.decode
