"""How well does the gateway foretell what real engines have cached?  `python -m bench.bridge --help`."""
