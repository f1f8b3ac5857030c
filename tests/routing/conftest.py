"""How Hypothesis runs the routing laws: without a deadline, since no test judges by the clock."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
