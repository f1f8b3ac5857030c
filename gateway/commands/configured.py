"""Which configuration is meant by what was typed?  Read, and checked with the files and plug-ins it names."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from config.schema import Config


def configured(given: argparse.Namespace) -> "Config":
    """The configuration.  Raises ConfigError with every mistake, each with its file and line."""
    from config.load import ConfigError, load, located
    from gateway.golden import compose as golden
    from gateway.processes import counting, policies
    from gateway.recording import folder

    settings, file = _typed(given), file_of(given)
    config = load(file, os.environ, settings)
    rooms = (policies, golden, counting, folder)
    if wrong := [complaint for room in rooms for complaint in room.complaints(config)]:
        raise ConfigError(located(wrong, file, os.environ, settings))
    return config


def file_of(given: argparse.Namespace) -> Path | None:
    """The configuration's file; None where flags alone make it."""
    named = given.config or (None if given.engine else os.environ.get("SHADOWLANE_CONFIG") or None)
    return None if named is None else Path(named)


def _typed(given: argparse.Namespace) -> dict[str, Any]:
    """What flags say, nested like the file."""
    from config.flags import overrides

    settings: dict[str, Any] = overrides(
        engines=given.engine,
        control=given.control,
        candidates=given.candidate,
        listen=given.listen,
        admin=given.admin,
        workers=given.workers,
        sample_rate=given.sample_rate,
    )
    if given.state_dir is not None:
        settings["state_dir"] = given.state_dir
    if given.command == "record":
        record = {"to": given.to, "rate": given.share, "text": given.text or None}
        settings["record"] = {name: value for name, value in record.items() if value is not None}
    return settings
