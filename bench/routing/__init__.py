"""Which policy routes best: a fleet of emulated engines in virtual time, the real router, traces, oracles."""
