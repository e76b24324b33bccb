"""Drills: what an operator relies on, played on real processes (docs/drills.md)."""
