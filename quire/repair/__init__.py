"""Restoring the lost data of a bookie, from the ledgers' metadata and from other bookies' copies.

The one room that knows the records of ledgers and the disk of a bookie. `census` lists the
ledgers that a bookie may have had, `directory` salvages a stopped bookie, `copies` serves a
running one.
"""
