"""What single methods say: hooks, sites, index arithmetic."""

from __future__ import annotations

import ast
import textwrap

import pytest

from matrix.scan._hook import read_hook
from matrix.scan._linear import constant_part, linear
from matrix.scan._sites import sites_of


def function(source: str) -> ast.FunctionDef:
    node = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("i", 0),
        ("i + 1", 1),
        ("1 + i", 1),
        ("i - 1", -1),
        ("i + self.start_layer", 0),
        ("i - self.start_layer + 1", 1),
        ("loop * depth + i", 0),
        ("int(i) + 1", 1),
        ("2 * i", None),
        ("i + i", None),
        ("depth - i", None),
        ("other", None),
    ],
)
def test_linear(expression: str, expected: int | None) -> None:
    assert linear(ast.parse(expression, mode="eval").body, {"i": 0}) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("self.end_layer", 0), ("self.end_layer - 1", -1), ("len(self.layers)", 0), ("-1", -1)],
)
def test_constant_part(expression: str, expected: int) -> None:
    assert constant_part(ast.parse(expression, mode="eval").body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.model.layers_to_capture = ids", ("store", "model", 0)),
        ("self.model.layers_to_capture = [v + 1 for v in ids]", ("store", "model", 1)),
        ("self.model.layers_to_capture = {v + 1 for v in ids}", ("store", "model", 1)),
        ("self.model.layers_to_capture = tuple(sorted(set(ids)))", ("store", "model", 0)),
        ("moved = [v - 1 for v in ids]\nself.layers_to_capture = moved", ("store", "", -1)),
        ("self.lm.model.set_eagle3_layers_to_capture(ids)", ("call", "lm.model", 0)),
        ("super().set_dflash_layers_to_capture(ids)", ("call", "super", 0)),
        ("inner = self.lm\ninner.model.layers_to_capture = ids", ("store", "lm.model", 0)),
        ("for v in ids:\n    self.layers[v]._is_layer_to_capture = True", ("mark", "", 0)),
        (
            "for v in ids:\n    setattr(self.model.layers[v + 1], '_is_layer_to_capture', True)",
            ("mark", "model", 1),
        ),
        (
            "if ids is None:\n    self.layers_to_capture = [1]\nelse:\n"
            "    self.layers_to_capture = [v + 1 for v in ids]",
            ("store", "", 1),
        ),
        ("self.layers_to_capture = guess(ids)", ("store", "", None)),
    ],
)
def test_what_a_hook_does(body: str, expected: tuple[str, str, int | None]) -> None:
    hook = read_hook(
        function(f"def set_dflash_layers_to_capture(self, ids):\n{textwrap.indent(body, '    ')}")
    )
    assert [(e.kind, e.path, e.offset) for e in hook.effects] == [expected]


def test_a_flag_by_comparison_counts_from_the_stored_ids() -> None:
    hook = read_hook(
        function("""
            def set_dspark_layers_to_capture(self, ids):
                self.model.layers_to_capture = [i + 1 for i in ids]
                for i, layer in enumerate(self.model.layers):
                    layer._is_layer_to_capture = i in self.model.layers_to_capture
        """)
    )
    assert [(e.kind, e.path, e.offset) for e in hook.effects] == [
        ("store", "model", 1),
        ("mark", "model", 1),
    ]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("ids is None", ("none",)),
        ("not ids", ("none",)),
        ("list(ids) != sorted(set(ids))", ("dup", "order")),
        ("any(i < 0 or i >= depth for i in ids)", ("range",)),
        ("not all(0 <= i < depth - 1 for i in ids)", ("last", "range")),
        ("len(ids) != len(set(ids))", ("dup",)),
        ("self.model.broken", ()),
    ],
)
def test_what_a_hook_refuses(test: str, expected: tuple[str, ...]) -> None:
    source = (
        f"def set_dflash_layers_to_capture(self, ids):\n    if {test}:\n        raise ValueError"
    )
    assert read_hook(function(source)).checks == expected


def test_a_refusal_may_go_through_a_local_variable() -> None:
    hook = read_hook(
        function("""
            def set_dflash_layers_to_capture(self, ids):
                bad = [i for i in ids if not 0 <= i < self.depth]
                if bad:
                    raise ValueError(bad)
        """)
    )
    assert "range" in hook.checks


def places(source: str) -> list[tuple[str, int | None]]:
    return [(site.where, site.offset) for site in sites_of(function(source))]


def test_sites_before_after_and_behind_the_loop() -> None:
    assert places("""
        def forward(self, x):
            if self.start_layer in self.layers_to_capture:
                aux.append(x)
            for i, layer in enumerate(self.layers):
                if i in self.layers_to_capture:
                    aux.append(x)
                x = layer(x)
                if i + 1 in self.layers_to_capture:
                    aux.append(x)
            if len(self.layers) in self.layers_to_capture:
                aux.append(x)
    """) == [("entry", 0), ("before", 0), ("after", 1), ("end", 0)]


def test_what_is_handed_to_the_layer_is_before_it() -> None:
    assert places("""
        def forward(self, x):
            for i in range(self.start_layer, self.end_layer):
                with recorder(i):
                    layer = self.layers[i]
                    x = layer(x, capture=aux.capture if i in self.layers_to_capture else None)
    """) == [("before", 0)]


def test_branches_of_one_loop_are_walked_apart() -> None:
    assert places("""
        def forward(self, x):
            for i, layer in enumerate(self.layers):
                if self.fused:
                    if i in self.layers_to_capture:
                        aux.append(x)
                    x = layer(x)
                else:
                    if i in self.layers_to_capture:
                        aux.append(x)
                    x = layer.forward_plain(x)
    """) == [("before", 0), ("before", 0)]


def test_a_loop_around_the_layer_loop_rebases_the_index() -> None:
    assert places("""
        def forward(self, x):
            for turn in range(self.turns):
                for i in range(self.depth):
                    number = turn * self.depth + i
                    x = self.layers[i](x, capture=number in self.layers_to_capture)
    """) == [("before", 0)]


def test_flags_and_helper_calls_are_sites() -> None:
    assert places("""
        def forward(self, x, r):
            aux = self._maybe_add_hidden_state([], 0, x, r)
            for i, layer in enumerate(self.layers):
                x, r = layer(x, r, aux if getattr(layer, "_is_layer_to_capture", False) else None)
                self._maybe_add_hidden_state(aux, i + 1, x, r)
    """) == [("entry", 0), ("before", 0), ("after", 1)]


def test_scaled_indices_are_not_told() -> None:
    assert places("""
        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = layer(x)
                if 2 * i in self.layers_to_capture:
                    aux.append(x)
    """) == [("after", None)]
