"""The body of a request, counted while it is under way."""

from __future__ import annotations

from typing import Final

from quire.aio.timing import time_limit
from quire.extras import needed_for
from quire.gateway.answers import StalledError
from quire.gateway.limits import BODY_SECONDS, Admission

with needed_for("quire gateway", "gateway"):
    from starlette.requests import ClientDisconnect
    from starlette.types import Receive

_PART: Final = "http.request"


class CountedBody:
    """A block that has a whole body.

    It takes the server's messages itself: the stream of a request and a context manager of a
    generator would be two asynchronous generators for each request, which the event loop registers
    and closes.
    """

    __slots__ = ("_admission", "_receive", "_size")

    def __init__(self, admission: Admission, receive: Receive) -> None:
        self._admission = admission
        self._receive = receive
        self._size = 0

    async def __aenter__(self) -> bytes:
        """Return the body.

        Raises as `Admission.take`, `StalledError` for a body that takes too long, and
        `ClientDisconnect`.
        """
        try:
            async with time_limit(BODY_SECONDS):
                return await self._whole()
        except TimeoutError:
            self._admission.give_back(self._size)
            raise StalledError(f"the body has not come within {BODY_SECONDS:.0f} s") from None
        except BaseException:
            self._admission.give_back(self._size)
            raise

    async def _whole(self) -> bytes:
        parts: list[bytes] = []
        while True:
            message = await self._receive()
            if message["type"] != _PART:
                raise ClientDisconnect
            part = message.get("body", b"")
            self._admission.take(len(part), self._size + len(part))
            self._size += len(part)
            if not message.get("more_body", False):
                return b"".join((*parts, part)) if parts else part
            parts.append(part)

    async def __aexit__(self, *_: object) -> None:
        self._admission.give_back(self._size)
