"""Proofs that the matrix bites; installed as `matrix._meta`."""
