"""The tools tasks bring: small commands of their own, found by the task's name."""

from __future__ import annotations

from collections.abc import Sequence

from longhaul.app.registry import find_kind, task_names
from longhaul.app.text import columns
from longhaul.core.errors import ConfigError, suggestion


def list_tools() -> str:
    """Return all tools of all tasks with what they do."""
    kinds = [find_kind(name) for name in task_names()]
    rows = [(kind.name, tool.name, tool.summary) for kind in kinds for tool in kind.tools]
    return columns(rows, header=("task", "tool", "what it does"))


def run_tool(task: str, name: str, arguments: Sequence[str]) -> str:
    """Run a tool with the arguments the user wrote after its name; return what it tells."""
    kind = find_kind(task)
    tools = {tool.name: tool for tool in kind.tools}
    if name not in tools:
        there = ", ".join(tools) or "none"
        raise ConfigError(
            f"task {kind.name!r} has no tool {name!r}{suggestion(name, tools)} (tools: {there})"
        )
    return tools[name].run(arguments)
