"""Spans in the tracer provider of an application. Spans of records are in messages.py.

It needs the API, which does nothing by itself. The application chooses an SDK and an exporter, and
hands its provider to `connect`. A bookie is a process of its own: it uses the provider that was
set up around it (`opentelemetry-instrument`), if the operator asks for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.trace import ProxyTracerProvider, TracerProvider, get_tracer_provider

from quire.errors import ConfigurationError
from quire.tracing.messages import MessageSpans
from quire.tracing.spans import Note, Spans, Values
from quire.version import __version__


class ProviderSpans(Spans):
    """Spans of one tracer. Made by `spans_of`."""

    def __init__(self, provider: TracerProvider, *, records: bool = False) -> None:
        self._tracer = provider.get_tracer("quire", __version__)
        self.messages = MessageSpans(provider) if records else None

    @contextmanager
    def begin(self, name: str, attributes: Values, *, alone: bool = False) -> Iterator[Note]:
        """See `Spans.begin`. A span that ends by an error has its name, and so has a cancelled one:
        the work may go on elsewhere.
        """
        parent = Context() if alone else None
        begun = self._tracer.start_as_current_span(name, parent, attributes=attributes)
        with begun as span:
            try:
                yield span.set_attribute
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                raise


def spans_of(provider: TracerProvider, *, records: bool = False) -> Spans:
    """Return spans of an application's provider.

    Args:
        provider: the provider, as `opentelemetry.sdk.trace.TracerProvider()`.
        records: whether appends and consumers have spans, too.

    Raises:
        ConfigurationError: it is another kind of object.
    """
    if not isinstance(provider, TracerProvider):
        raise ConfigurationError(
            f"tracer_provider is {provider!r}: give a TracerProvider of OpenTelemetry, as "
            "opentelemetry.sdk.trace.TracerProvider()"
        )
    return ProviderSpans(provider, records=records)


def spans_of_process() -> Spans:
    """Return spans of the provider that was set up for this process.

    Raises:
        ConfigurationError: none was set up.
    """
    provider = get_tracer_provider()
    if isinstance(provider, ProxyTracerProvider):
        raise ConfigurationError(
            "--tracing has nowhere to send spans: start the bookie by `opentelemetry-instrument "
            "quire bookie serve …` (pip install opentelemetry-distro opentelemetry-exporter-otlp), "
            "or leave --tracing out"
        )
    return spans_of(provider)
