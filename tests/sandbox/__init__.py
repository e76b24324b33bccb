"""The sandbox of the unit for systemd, tried on a real bookie without systemd (needs root)."""
