"""The soak's parts: an engine that fails as told, traffic that knows what to expect, faults, and rest."""
