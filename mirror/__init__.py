"""Shadow traffic: which conversations are copied, how copies reach the arms, how answers become pairs.

`sample`, `headers` and `lane` run in the gateway's workers: they decide and pack, and never wait.  `shadow`
is a process of its own: it takes copies from the lane, sends each to every arm at the same moment, reads
every answer to its end, and hands pairs to the analysis process.  Whatever is not paired is counted, with
the reason.
"""
