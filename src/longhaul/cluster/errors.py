"""What can go wrong with a cluster, in the user's words."""

from __future__ import annotations

from longhaul.core.errors import EnvError


class ClusterError(EnvError):
    """The cluster cannot be reached, or runs no collector; the command ends with code 3."""
