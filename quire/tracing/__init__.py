"""Spans for OpenTelemetry: the rare work of a client or a bookie, as parts of the work around it.

    spans.py          pure   the port and the names of the spans; silent by default
    provider.py      pure   the type of a tracer provider
    opentelemetry.py         spans of a tracer provider that the application gives

A span stands for an opening, a takeover, a recovery, a roll or a move of copies, and never for an
entry. Nothing is global: without a provider OpenTelemetry is not even imported.

May import: quire's errors and version, in opentelemetry.py; no other module imports OpenTelemetry.
Not here: figures (quire/metrics), ids of requests (quire/requests.py).
"""
