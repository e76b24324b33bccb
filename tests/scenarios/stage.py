"""All commands of a transcript on one stage."""

from __future__ import annotations

from tests.scenarios.client_commands import ClientCommands
from tests.scenarios.cluster_commands import ClusterCommands


class Stage(ClusterCommands, ClientCommands):
    """Plays transcripts."""
