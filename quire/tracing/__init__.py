"""Spans for OpenTelemetry: the rare work of a client or a bookie, as parts of the work around it.

    spans.py          pure   the port and the names of the spans; silent by default
    provider.py      pure   the type of a tracer provider
    opentelemetry.py         spans of a tracer provider that the application gives
    messages.py              spans of records, and their context in headers: an application asks

A span stands for an opening, a takeover, a recovery, a roll or a move of copies. It stands for
records only in a sampled trace, with `connect(…, trace_records=True)`. Nothing is global but the
format of contexts: without a provider OpenTelemetry is not even imported.

May import: quire's errors and version. OpenTelemetry: opentelemetry.py and messages.py, and the
type in provider.py.
Not here: figures (quire/metrics), ids of requests (quire/requests.py).
"""
