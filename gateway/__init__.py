"""The gateway: the processes, the data plane, and the command line.

A request's way: `server` (the client's connection) → `paths` (may it?) → `relay` (the request, whole) →
`fleet` (which engine) → `attempt` (one engine's answer) → `reply` (back to the client).  None of these waits;
the sockets are `server`'s and `wire.upstream`'s.  `lane_link` hands copies to the shadow process, `status`
and `metrics` tell what happened, `sweep` ends what is silent, `health` probes.

Around it: `cli` → `serve` → `supervisor` starts and keeps the processes, `compose` turns the config into what
each is told, `process` brings a child to life.  Only these know the config.
"""
