"""The gateway: one request's way, and around it the rooms that keep it going.

A request's way stands here: `clients.server` (the client's connection) → `paths` (may it?) → `relay` (the
request, whole) → `fleets.fleet` (which engine) → `attempt` (one engine's answer) → `reply` (back to the
client).  None of these waits; the sockets are `clients.server`'s and `wire.upstream`'s.  `lane_link` hands
copies to the shadow process, `metrics` and `access_log` tell what happened, `sweep` ends what is silent.

`clients`: how they come in.  `fleets`: what is known of engines.  `admission`: limits.  `split`: prefill and
decode apart.  `bridge`, `kv`: what engines hold.  `discovery`, `launch`: where engines come from.
`recording`, `golden`: traffic kept, and asked again.  `processes`: `cli` → `serve` → `supervisor` starts and
keeps them, `compose` turns the config into what each is told, `process` brings a child to life.  `commands`,
`demo`: what else may be typed.
"""
