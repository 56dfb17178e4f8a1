"""The docstrings under the fields of a dataclass."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import typing


def field_docs(kind: type) -> dict[str, str]:
    """Return the docstring written under each field of a dataclass, inherited ones included."""
    docs: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if dataclasses.is_dataclass(part):
            docs |= _own_docs(part)
    return docs


def _own_docs(kind: type) -> dict[str, str]:
    """Return the docstring under each field that a dataclass declares itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(following, ast.Expr):
            continue
        text = following.value
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            docs[ast.unparse(statement.target)] = " ".join(text.value.split())
    return docs
