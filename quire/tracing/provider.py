"""The type of an application's tracer provider, without the library at run time.

A client without spans imports no library for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider as TracerProvider
else:
    TracerProvider = "opentelemetry, which only spans need"
