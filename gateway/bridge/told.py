"""Under which names is it counted what was learned, what was not, and how well it foretells?"""

from typing import Final

from routing.bridge.accuracy import EDGES

SKIPPED: Final = ("known", "long", "little", "budget", "compressed")
"""Why a prompt was not worth learning (`routing.bridge.novelty`)."""
OF_SCHOOL: Final = (
    "learned", "unknown", "busy", "copy_lost", "unprobed", "template", "no_ids", "slow_worker", "malformed",
    "path", "unreadable", "unfit",
)  # fmt: skip
"""What became of those that were."""
BOUNDS: Final = (*map(str, EDGES), "inf")
"""Of errors, in tokens."""
