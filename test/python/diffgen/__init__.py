"""Seeded random data, predicates and queries for `differential.py`."""
