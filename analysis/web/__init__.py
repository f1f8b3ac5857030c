"""The admin server: probes, metrics, the API over status and rankings, and the live page.

Read-only, bound to loopback unless told otherwise, and closed to other origins: `guard` says how.
"""
