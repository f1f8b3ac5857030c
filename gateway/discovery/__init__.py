"""Engines that are looked up while the gateway runs: by DNS, in a file, at a Kubernetes API server.

A process of its own looks (`process`), so that nothing it waits for holds up the supervisor or a request.
Each kind of source is one file with one class behind `source.Source`.  Engines that the config lists need no
looking.
"""
