"""Index arithmetic: the constant in `index + c`, whatever it is rebased on."""

from __future__ import annotations

import ast

__all__ = ["Indices", "constant_part", "linear"]

Indices = dict[str, int | None]
"""Variables that run with the layer index -> what was already added to them."""

_LAYER_NUMBER = ("layer_id", "layer_idx", "layer_index")


def linear(node: ast.expr, indices: Indices, layers: frozenset[str] = frozenset()) -> int | None:
    """The c in `index + c`, `None` when the index doesn't occur exactly once, unscaled.

    Terms without the index (`self.start_layer`, `loop * depth`) rebase it, they don't shift it.
    `layers` are variables that hold a layer, whose own number is an index too.
    """
    parts = _parts(node, indices, layers)
    return parts[1] if parts is not None and parts[0] == 1 else None


def constant_part(node: ast.expr) -> int | None:
    """The c in `depth + c`; 0 for a bare depth."""
    parts = _parts(node, {}, frozenset())
    return None if parts is None else parts[1]


def _parts(node: ast.expr, indices: Indices, layers: frozenset[str]) -> tuple[int, int] | None:
    """(how often the index occurs, the constant), `None` when that can't be told."""
    if isinstance(node, ast.Name):
        if node.id not in indices:
            return 0, 0
        held = indices[node.id]
        return None if held is None else (1, held)
    if isinstance(node, ast.Constant):
        return (0, node.value) if isinstance(node.value, int) else None
    if isinstance(node, ast.Attribute):
        own = isinstance(node.value, ast.Name) and node.value.id in layers
        return (1, 0) if own and node.attr in _LAYER_NUMBER else (0, 0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _parts(node.operand, indices, layers)
        return None if inner is None or inner[0] else (0, -inner[1])
    if isinstance(node, ast.BinOp):
        return _sum(node, indices, layers)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return _parts(node.args[0], indices, layers) if node.func.id == "int" else (0, 0)
    return 0, 0


def _sum(node: ast.BinOp, indices: Indices, layers: frozenset[str]) -> tuple[int, int] | None:
    left = _parts(node.left, indices, layers)
    right = _parts(node.right, indices, layers)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return left[0] + right[0], left[1] + right[1]
    if isinstance(node.op, ast.Sub):
        return (left[0], left[1] - right[1]) if right[0] == 0 else None
    return None if left[0] or right[0] else (0, 0)
