"""What the operator asked for: files, environment and flags, read once and checked whole.

`load.load` gives a frozen `schema.Config`; `plugins.build` turns a plug-in's name and settings into an
object.  Every mistake is a `complaint.ConfigError` that names the place, what was expected, what was found
and the nearest valid word.  Only the gateway's entry point imports this package; it hands plain values on.
"""
