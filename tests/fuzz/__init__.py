"""A long campaign of wrong requests against a bookie with TLS on both ports (`make fuzz`)."""
