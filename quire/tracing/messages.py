"""Spans of records in OpenTelemetry's conventions for messaging, and their context in headers.

    append  a producer's span (`append orders`), only inside of a trace; the headers of the records
            carry its context: `traceparent`, or the headers of the process's propagators
    process a consumer's span (`process orders`), only if a record was appended in a sampled trace;
            it links to the span of each append, and stands below it if there is only one

So a record outside of a sampled trace never has a span. A trace that is not sampled is carried on
without spans, as the conventions ask for. A header that cannot be read is as good as none: what
other programs write into records must not stop a consumer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from quire.tracing.provider import TracerProvider
from quire.tracing.spans import OFFSET, Messages, Pairs, Traced, TracedAppend
from quire.version import __version__

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
COUNT: Final = "messaging.batch.message_count"
CONSUMER: Final = "messaging.consumer.group.name"
ERROR: Final = "error.type"

LINKS_MAX: Final = 128
"""Links of one span, as the SDK's own limit is. More traces of one transaction have none."""

VALUE_BYTES_MAX: Final = 8192
"""A longer header is not a context: the W3C limits the largest, baggage, to so many bytes."""

_WITHIN: Final = create_key("quire-append")
"""Set where a span stands for more appends than one."""

_log = logging.getLogger(__name__)


class _Headers(Getter[Mapping[str, str]]):
    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        found = carrier.get(key.lower())
        return None if found is None else [found]

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)


_GETTER: Final = _Headers()


def injected() -> Pairs:
    """Return the headers that carry the current context; none outside of any trace."""
    if not trace.get_current_span().get_span_context().is_valid:
        return ()
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    found = ((name, value.encode("utf-8", "replace")) for name, value in carrier.items())
    return tuple((name, value) for name, value in found if len(value) <= VALUE_BYTES_MAX)


def extracted(headers: Pairs) -> Context:
    """Return the context that headers carry; an empty one if they carry none that can be read."""
    carrier: dict[str, str] = {}
    for name, value in headers:
        if value is not None and len(value) <= VALUE_BYTES_MAX:
            carrier.setdefault(name.lower(), value.decode("utf-8", "replace"))
    try:
        return propagate.extract(carrier, Context(), _GETTER)
    except Exception as error:  # a propagator of the application: see the module's head
        _log.debug("headers of a record carry no context: %s", error)
        return Context()


class _SpanOfAppend(TracedAppend):
    def __init__(self, headers: Pairs, span: Span | None) -> None:
        self.headers = headers
        self._span = span

    def end(self, offset: int) -> None:
        if self._span is not None:
            self._span.set_attribute(OFFSET, offset)
            self._span.end()

    def fail(self, error: BaseException) -> None:
        if self._span is not None:
            _note(self._span, error)
            self._span.end()


def _note(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR, type(error).__name__)
    if isinstance(error, Exception):  # a cancelled append may be in the log
        span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


class MessageSpans(Messages):
    """Spans of records in one tracer provider.

    `connect(tracer_provider=…, trace_records=True)` makes them for appends and SQL consumers. A
    program that reads records by itself says where it processes them:

        spans = MessageSpans(provider)
        async for record in reader:
            with spans.process("orders", [record], consumer="billing"):
                ...

    Args:
        provider: the application's tracer provider.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("quire", __version__)

    def send(self, log: str, count: int) -> TracedAppend | None:
        """Begin the span of an append. quire calls it.

        Args:
            log: the log's name.
            count: how many records are appended together.

        Returns:
            The append, with the headers of its records; None outside of any trace.
        """
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        if not context.trace_flags.sampled or get_value(_WITHIN):
            return _SpanOfAppend(injected(), None)
        span = self._begin("append", "send", log, SpanKind.PRODUCER, count=count)
        with trace.use_span(span):
            return _SpanOfAppend(injected(), span)

    @contextmanager
    def send_many(self, log: str) -> Iterator[Callable[[int, int | None], None]]:
        """Begin the span of an append of unknown length. quire calls it.

        Args:
            log: the log's name.

        Yields:
            What takes the number of records, and the first offset or None.
        """
        if not trace.get_current_span().get_span_context().trace_flags.sampled:
            yield lambda count, offset: None
            return
        span = self._begin("append", "send", log, SpanKind.PRODUCER)

        def note(count: int, offset: int | None) -> None:
            span.set_attribute(COUNT, count)
            if offset is not None:
                span.set_attribute(OFFSET, offset)

        with self._within(span, set_value(_WITHIN, True)):
            yield note

    @contextmanager
    def process(
        self, log: str, records: Sequence[Traced], consumer: str | None = None
    ) -> Iterator[None]:
        """Return the block for processing records.

        Its span begins only if one of the records was appended in a sampled trace.

        Args:
            log: the log's name.
            records: the records, as a reader returned them.
            consumer: the consumer's name, which the span notes; None for a reader without one.

        Yields:
            None. The span, if there is one, is the current one, and an error of the block is its
            error.
        """
        found = _contexts(records)
        if not found:
            yield
            return
        span = self._begin(
            *("process", "process", log, SpanKind.CONSUMER),
            count=len(records),
            consumer=consumer,
            links=found,
        )
        with self._within(span):
            yield

    def _begin(
        self,
        operation: str,
        kind_of_operation: str,
        log: str,
        kind: SpanKind,
        *,
        count: int = 1,
        consumer: str | None = None,
        links: Sequence[SpanContext] = (),
    ) -> Span:
        values: dict[str, str | int] = {
            SYSTEM: "quire",
            OPERATION: operation,
            OPERATION_TYPE: kind_of_operation,
            DESTINATION: log,
        }
        if count != 1:
            values[COUNT] = count
        if consumer is not None:
            values[CONSUMER] = consumer
        parent = None
        if len(links) == 1:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(links[0]), Context())
        return self._tracer.start_span(
            f"{operation} {log}",
            parent,
            kind,
            attributes=values,
            links=[Link(each) for each in links],
        )

    @contextmanager
    def _within(self, span: Span, context: Context | None = None) -> Iterator[None]:
        token = attach(trace.set_span_in_context(span, context))
        try:
            yield
        except BaseException as error:
            _note(span, error)
            if isinstance(error, Exception):
                span.record_exception(error)
            raise
        finally:
            detach(token)
            span.end()


def _contexts(records: Sequence[Traced]) -> list[SpanContext]:
    """Return the sampled contexts of records, each once, in order."""
    found: dict[tuple[int, int], SpanContext] = {}
    for record in records:
        if record.headers and len(found) < LINKS_MAX:
            context = trace.get_current_span(extracted(record.headers)).get_span_context()
            if context.is_valid and context.trace_flags.sampled:
                found.setdefault((context.trace_id, context.span_id), context)
    return list(found.values())


__all__ = ["MessageSpans"]
