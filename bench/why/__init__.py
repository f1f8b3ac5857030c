"""How often is a diagnosis right?  Faults injected blindly into an emulated engine, and a confusion table."""
