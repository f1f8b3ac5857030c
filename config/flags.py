"""What the flags of `shadowlane serve` mean, as settings: a gateway needs no file."""

from collections.abc import Sequence
from typing import Any

from config.complaint import Complaint, ConfigError, shown

EXPERIMENT = "trial"


def overrides(
    engines: Sequence[str] = (),
    control: str | None = None,
    candidates: Sequence[str] = (),
    listen: str | None = None,
    admin: str | None = None,
    workers: int | None = None,
    sample_rate: float | str | None = None,
) -> dict[str, Any]:
    """The settings that flags stand for, to be given to `load.load`.

    `engines` become one fleet that takes every model; `control` and `candidates` (each NAME=URL) become one
    experiment named "trial".  `sample_rate` is a share of conversations or "auto".  Raises ConfigError when
    the flags do not fit together; URLs and numbers are checked by `load`.
    """
    complaints: list[Complaint] = []
    if candidates and control is None:
        expected = (
            "--control URL with --candidate: a candidate is judged against production's own configuration"
        )
        complaints.append(Complaint("command line", (), expected, "none"))
    if control is not None and not candidates:
        expected = "--candidate NAME=URL with --control"
        complaints.append(Complaint("command line", (), expected, "none"))
    if sample_rate is not None and control is None and not candidates:
        expected = "--sample-rate together with --control and --candidate"
        complaints.append(Complaint("command line", (), expected, "it alone"))
    named: list[dict[str, str]] = []
    for candidate in candidates:
        name, equals, url = candidate.partition("=")
        if equals and name and url and "/" not in name:
            named.append({"name": name, "engine": url})
        else:
            expected = "--candidate NAME=URL, as in --candidate fp8=http://10.0.1.2:8000"
            complaints.append(Complaint("command line", (), expected, shown(candidate)))
    if complaints:
        raise ConfigError(complaints)

    given: dict[str, Any] = {"listen": listen, "admin": admin, "workers": workers}
    settings = {key: value for key, value in given.items() if value is not None}
    if engines:
        settings["fleets"] = [{"engines": list(engines)}]
    if control is not None:
        experiment: dict[str, Any] = {"name": EXPERIMENT, "control": {"engine": control}, "candidates": named}
        if sample_rate is not None:
            experiment["sample"] = {"rate": sample_rate}
        settings["experiments"] = [experiment]
    return settings
