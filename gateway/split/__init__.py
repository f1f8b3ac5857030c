"""Fleets with roles: one engine computes a request's prompt, another continues it with the KV handed over."""
