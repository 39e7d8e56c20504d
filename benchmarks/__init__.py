"""Benchmarks of the harness: one module a subject, each with `figures() -> list[Figure]`."""
