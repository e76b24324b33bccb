"""Measurements to run by hand; each prints its figures beside the limits of the same run."""
