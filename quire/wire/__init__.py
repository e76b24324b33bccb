"""Bookies over gRPC: the messages, errors and options that both ends share (docs/protocol.md)."""
