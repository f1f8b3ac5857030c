"""Who may ask, how much at a time, and whose turn it is: keys, limits, the queue and fairness.

Nothing here waits or reads a clock: `admit.Admission` is told instants and calls back.
Only `bell.py` does I/O.
"""
