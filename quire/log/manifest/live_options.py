"""A leader's options as they are now: its own, with the options stored in the log laid over them.

Settings can change while a leader writes. Code that needs an option looks it up when it is used, or
asks to be told: a leader never has to be restarted for one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from quire.errors import ConfigurationError
from quire.log.manifest.options import LogOptions
from quire.log.manifest.schema import NO_SETTINGS

_log = logging.getLogger(__name__)


class LiveOptions:
    """Options of the leader of one log; `now` is what holds at the moment."""

    __slots__ = ("_given", "_listeners", "_name", "_settings", "now")

    def __init__(self, name: str, given: LogOptions) -> None:
        self._name = name
        self._given = given
        self._settings = NO_SETTINGS
        self._listeners: tuple[Callable[[], None], ...] = ()
        self.now = given

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call something whenever `now` has changed."""
        self._listeners = (*self._listeners, listener)

    def call_nobody(self) -> None:
        """Stop all calls: the leader is gone, or rests, and one of its calls may still see a
        manifest.
        """
        self._listeners = ()

    def follow(self, settings: Mapping[str, str]) -> None:
        """Obey the settings of a manifest just seen.

        Settings that make no sense to this leader (written by a newer quire, or impossible together
        with its own options) change nothing: a log that is being written goes on.
        """
        if settings == self._settings:
            return
        self._settings = settings
        try:
            self.now = self._given.with_stored(settings)
        except ConfigurationError as error:
            _log.warning("log %r continues with the options it had: %s", self._name, error)
            return
        for listener in self._listeners:
            listener()
