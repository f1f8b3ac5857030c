"""What each kind of engine speaks, where they differ: one file a kind, each with a `DIALECT`.

A file's name is the kind's name in the config.
"""
