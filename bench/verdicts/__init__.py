"""How often are verdicts wrong, and how soon are they there?  Simulations with fixed seeds."""
