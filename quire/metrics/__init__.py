"""Figures for Prometheus: the table of all metrics, what a client counts, how figures are shown.

    table.py     pure   every metric: name, kind, labels, meaning; the documentation is made from it
    figures.py   pure   histograms as plain numbers
    meter.py     pure   the port that a client tells of its work, silent by default; a counting one
    registry.py  pure   the type of a registry
    families.py         figures as prometheus_client's families
    client.py           a client's figures in a registry of the application

Nothing is registered globally: an application gives its registry to `connect`.

May import: nothing of quire but its version. The pure modules are values for everyone. Not here:
the figures of a bookie and of a gateway, which stand beside what they measure.
"""
