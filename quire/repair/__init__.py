"""Bringing back what a bookie lost: what metadata says of it, and the copies that others have.

The one room that knows the records of ledgers and the disk of a bookie. `census` counts what a
bookie may have had, `directory` salvages a stopped bookie, `copies` serves a running one.
"""
