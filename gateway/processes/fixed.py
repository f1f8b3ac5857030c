"""Which settings cannot change while the gateway runs?"""

from typing import Final

from config.complaint import Complaint
from config.schema import Config

# What a running gateway takes over from a new configuration; all else is as it was at the start.
RELOADABLE: Final = frozenset(
    {
        "fleets", "experiments", "limits", "health", "keys", "keys_file", "admission",
        "trusted_proxies", "session_headers", "cors", "log", "reload", "record", "prices",
    }
)  # fmt: skip
_FIXED_INSIDE: Final = (("log", "level"), ("log", "format"))


def fixed(old: Config, new: Config, source: str) -> list[Complaint]:
    """The settings that differ and cannot be changed; `source` is what complaints name as their place."""

    def complaint(*path: str) -> Complaint:
        return Complaint(
            source,
            path,
            "what it was at the start, as it cannot change while the gateway runs",
            "another value",
            "restart to change it, or put it back",
        )

    return [
        complaint(name)
        for name in Config.model_fields
        if name not in RELOADABLE and getattr(old, name) != getattr(new, name)
    ] + [
        complaint(*path)
        for path in _FIXED_INSIDE
        if getattr(getattr(old, path[0]), path[1]) != getattr(getattr(new, path[0]), path[1])
    ]
