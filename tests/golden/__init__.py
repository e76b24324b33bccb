"""Bytes of every format, as an earlier program wrote them: each is read to the same values."""
