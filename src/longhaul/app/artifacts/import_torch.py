"""Importing weights of a PyTorch `.pt` file, without running any code from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from longhaul.app.build.components import build_task
from longhaul.app.build.config import RunConfig
from longhaul.app.build.text import columns, first_line
from longhaul.app.evaluation.agent import untrained
from longhaul.core.errors import ConfigError
from longhaul.core.policy import Policy

PREFIXES = ("_orig_mod.", "module.")
"""Prefixes that torch.compile and data-parallel wrappers add to names."""
HOLDERS = ("model", "state_dict", "model_state_dict", "policy", "policy_state_dict", "net")
"""Keys under which trainers store the weights."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Which weights of a file match the policy."""

    file: str
    matched: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    reshaped: tuple[str, ...]
    """Names in both with different shapes; the policy keeps its own weights there."""
    was_compiled: bool
    folder: Path | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every weight of the policy came from the file."""
        return not self.missing and not self.reshaped

    def as_text(self) -> str:
        """Return the counts and the names that did not match."""
        rows = [
            ("matched", str(len(self.matched)), ""),
            ("missing in the file", str(len(self.missing)), _some(self.missing)),
            ("different shape", str(len(self.reshaped)), _some(self.reshaped)),
            ("not in the policy", str(len(self.unexpected)), _some(self.unexpected)),
        ]
        written = f"policy   {self.folder}" if self.folder else "not written; give --out to write"
        kind = "compiled" if self.was_compiled else "plain"
        return "\n".join([f"{self.file} ({kind})", columns(rows), written])

    def as_json(self) -> str:
        """Return all names for programs."""
        names = ("matched", "missing", "reshaped", "unexpected", "was_compiled", "is_complete")
        facts = {name: getattr(self, name) for name in names}
        return json.dumps({"file": self.file, **facts, "folder": str(self.folder or "")})


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@dataclass(frozen=True, slots=True)
class Request:
    """Which file to import, how to rename its weights, and where to write the policy."""

    file: Path
    renames: tuple[str, ...] = ()
    out: Path | None = None
    partial: bool = False


def import_weights(config: RunConfig, request: Request) -> Imported:
    """Return which weights match the task's policy, and write the policy if asked and complete."""
    weights, was_compiled = read_weights(request.file)
    renamed = rename(weights, request.renames)
    agent = untrained(config, build_task(config))
    found = place(agent.policy, renamed, request.file, was_compiled=was_compiled)
    if request.out is None:
        return found
    if not found.is_complete and not request.partial:
        raise ConfigError(
            f"{request.file} lacks {len(found.missing) + len(found.reshaped)} of the policy's "
            f"weights ({_some((*found.missing, *found.reshaped), 3)}); rename with --map OLD=NEW, "
            "choose the network with --set policy..., or write it anyway with --partial"
        )
    source = {"file": request.file.name, "matched": len(found.matched)}
    agent.save(request.out, source)
    return replace(found, folder=request.out)


def read_weights(file: Path) -> tuple[dict[str, Tensor], bool]:
    """Return the tensors of a file by their plain names, and whether its module was compiled."""
    content = read_plain(file)
    tensors = find_tensors(content)
    if not tensors:
        raise ConfigError(f"{file} holds no named tensors")
    plain = {strip(name): tensor for name, tensor in tensors.items()}
    return plain, any(PREFIXES[0] in name for name in tensors)


def read_plain(file: Path) -> Any:
    """Return the tensors and plain values of a file; raise if it holds anything else."""
    try:
        # Weights only: torch refuses everything else a pickle could do.
        return torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConfigError(f"{file} does not exist") from None
    except Exception as error:
        raise ConfigError(
            f"{file} holds more than weights, or is damaged; no code of it was run "
            f"({first_line(error)})"
        ) from error


def find_tensors(content: Any) -> dict[str, Tensor]:
    """Return the named tensors of a state dict, or of the state dict in a checkpoint."""
    if not isinstance(content, Mapping):
        return {}
    for holder in HOLDERS:
        if isinstance(content.get(holder), Mapping):
            return find_tensors(content[holder])
    return {name: held for name, held in content.items() if isinstance(held, Tensor)}


def strip(name: str) -> str:
    """Return a name without the prefixes of wrappers."""
    for prefix in PREFIXES:
        name = name.replace(prefix, "")
    return name


def rename(weights: Mapping[str, Tensor], renames: Sequence[str]) -> dict[str, Tensor]:
    """Return the weights with prefixes of their names replaced."""
    pairs = []
    for text in renames:
        old, equals, new = text.partition("=")
        if not equals or not old:
            raise ConfigError(f"--map takes OLD=NEW, prefixes of names, not {text!r}")
        pairs.append((old, new))
    renamed = {}
    for name, tensor in weights.items():
        for old, new in pairs:
            if name.startswith(old):
                name = new + name.removeprefix(old)
                break
        renamed[name] = tensor
    return renamed


def place(
    policy: Policy, weights: Mapping[str, Tensor], file: Path, *, was_compiled: bool
) -> Imported:
    """Load every weight that matches by name and shape; return the matches and the others."""
    own = policy.state_dict()
    matched = [n for n, part in weights.items() if n in own and part.shape == own[n].shape]
    reshaped = [
        f"{n} {tuple(part.shape)} for {tuple(own[n].shape)}"
        for n, part in weights.items()
        if n in own and part.shape != own[n].shape
    ]
    policy.load_state_dict({**own, **{name: weights[name].to(own[name].dtype) for name in matched}})
    return Imported(
        str(file),
        tuple(matched),
        tuple(name for name in own if name not in weights),
        tuple(name for name in weights if name not in own),
        tuple(reshaped),
        was_compiled,
    )
