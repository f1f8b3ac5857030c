"""Engines that Shadowlane starts itself on spare GPUs, and what the GPUs of arms are doing.

One process, kept by the supervisor like the others: it starts engines, watches and ends them (`engine`,
`kept`, `keeper`), reads their GPUs (`nvml`, `dcgm`, `readings`) and tells both.  What is decided is in
`life`, `gpus` and `template`, which do no I/O.
"""
