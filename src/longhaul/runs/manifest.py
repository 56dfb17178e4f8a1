"""What a checkpoint says about itself, in a file that proves its own integrity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from longhaul.core.errors import CheckpointError
from longhaul.core.progress import Progress
from longhaul.runs import exact_json
from longhaul.runs.durable import Digest
from longhaul.runs.jsonl import LogMark

FORMAT = 1
KIND = "longhaul checkpoint"


class DamagedError(CheckpointError):
    """A checkpoint is not what was written; an older one may be used instead."""


class ForeignError(CheckpointError):
    """A checkpoint is sound but belongs to something else."""


@dataclass(frozen=True, slots=True)
class Score:
    """The value of the metric by which checkpoints are ranked."""

    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is the same for every checkpoint of a process."""

    identity: Mapping[str, str]
    """Must be equal in a checkpoint and in the run that loads it: task, digest of the config."""
    versions: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    """Told to readers and not compared: the environment's tier, the device."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything about a checkpoint but the state itself."""

    progress: Progress
    settings: dict[str, Any]  # setting values by name; `Settings` checks them when they are used
    identity: dict[str, str]
    versions: dict[str, str]
    facts: dict[str, str]
    parts: dict[str, Digest]  # by file name
    logs: dict[str, LogMark]  # by file name
    created: str
    score: Score | None = None


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the manifest as JSON that ends with its own hash."""
    body = asdict(manifest)
    body["settings"] = exact_json.encode(manifest.settings, "settings")
    return _seal({"kind": KIND, "format": FORMAT, **body})


def _seal(body: dict[str, Any]) -> bytes:
    digest = hashlib.sha256(exact_json.dumps(body)).hexdigest()
    return exact_json.dumps({**body, "manifest_sha256": digest})


def decode_manifest(content: bytes) -> Manifest:
    """Return the manifest, or raise `DamagedError` or `ForeignError` with a reason."""
    try:
        body = exact_json.loads(content)
    except ValueError as error:
        raise DamagedError(f"manifest.json is not JSON: {error}") from error
    if not isinstance(body, dict) or body.pop("manifest_sha256", None) is None:
        raise DamagedError("manifest.json is not a longhaul manifest")
    # Sealing again gives the same bytes only if not one of them has changed.
    if _seal(body) != content:
        raise DamagedError("manifest.json does not match its own hash")
    if (body.pop("kind", None), body.pop("format", None)) != (KIND, FORMAT):
        raise ForeignError(
            f"it has another format than {FORMAT}, the one this version of longhaul reads; use "
            "the version that wrote it"
        )
    try:
        body["settings"] = _tuples(exact_json.decode(body.get("settings")))
        return msgspec.convert(body, Manifest)
    except (ValueError, msgspec.ValidationError) as error:
        raise DamagedError(f"manifest.json has a wrong entry: {error}") from error


def _tuples(value: Any) -> Any:
    """Return lists as tuples, which settings hold; JSON has only lists."""
    if isinstance(value, list):
        return tuple(_tuples(element) for element in value)
    if isinstance(value, dict):
        return {key: _tuples(element) for key, element in value.items()}
    return value
