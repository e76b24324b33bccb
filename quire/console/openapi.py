"""The OpenAPI document of a console, from its table of calls and the classes of their values. Pure.

A dataclass becomes a schema with its fields; its docstring is the description.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from quire.console.calls import CALLS
from quire.version import __version__

_SCALARS: Final[dict[object, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}

_ERROR: Final = {
    "description": "the request was refused",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
            }
        }
    },
}


def openapi() -> dict[str, Any]:
    """Return the table of calls as an OpenAPI document."""
    schemas: dict[str, Any] = {}
    paths = {
        call.path: {
            "get": {
                "operationId": call.name,
                "summary": call.summary,
                "description": (call.make.__doc__ or "").strip(),
                "parameters": [
                    {"name": name, "in": "query", "description": said, "schema": _TEXT}
                    for name, said in call.parameters.items()
                ],
                "responses": {
                    "200": {
                        "description": call.summary,
                        "content": {"application/json": {"schema": _schema(call.returns, schemas)}},
                    },
                    "default": _ERROR,
                },
            }
        }
        for call in CALLS
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "quire console", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_TEXT: Final = {"type": "string"}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [_schema(each, schemas) for each in parts if each is not type(None)]
        return {"anyOf": [*inner, {"type": "null"}]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(parts[1], schemas)}
    if origin is not None and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema(parts[0], schemas)}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _reference(kind, schemas)
    raise AssertionError(f"{kind} has no schema")


def _reference(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in schemas:
        schemas[name] = {}
        hints = typing.get_type_hints(kind)
        names = [each.name for each in fields(kind)] if is_dataclass(kind) else list(kind._fields)
        schemas[name] = {
            "type": "object",
            "description": " ".join((kind.__doc__ or "").split("\n\n")[0].split()),
            "required": names,
            "properties": {each: _schema(hints[each], schemas) for each in names},
        }
    return {"$ref": f"#/components/schemas/{name}"}
