"""Every fault planted into a synthetic residual stream gets its own name, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matrix.contract._compare import FloatArray
from matrix.contract._explain import Context, Observed, compare, explain
from matrix.faults import Fault
from matrix.reference._states import States

F = Fault
many = settings(max_examples=15, deadline=None, derandomize=True, database=None)


def norm(x: FloatArray, weight: FloatArray | float = 1.0) -> FloatArray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weight


def stream(
    rng: np.random.Generator,
    depth: int,
    width: int,
    length: int,
    weights: FloatArray,
    detail: bool = True,
) -> States:
    """A residual stream whose neighbouring layers are 5 to 30 % apart."""
    x = rng.normal(size=(length, width)) * rng.uniform(0.5, 2.0, size=(length, 1))
    embedding = x
    layers, attention, mlp = [], [], []
    for _ in range(depth):
        step = rng.uniform(0.05, 0.3) * np.linalg.norm(x, axis=1, keepdims=True) / width**0.5
        split = rng.uniform(0.4, 0.6)
        attention.append(rng.normal(size=x.shape) * step * split**0.5)
        mlp.append(rng.normal(size=x.shape) * step * (1 - split) ** 0.5)
        x = x + attention[-1] + mlp[-1]
        layers.append(x)
    final = weights[depth]
    single = np.float32
    return States(
        tokens=tuple(int(t) for t in rng.integers(0, 500, length)),
        layers=np.array(layers, single),
        logits=np.zeros((length, 4), single),
        embedding=embedding.astype(single),
        normed=norm(layers[-1], final).astype(single),
        attention=np.array(attention, single) if detail else None,
        mlp=np.array(mlp, single) if detail else None,
        final_normed=np.array([norm(y, final) for y in layers], single) if detail else None,
        next_normed=np.array([norm(y, weights[n + 1]) for n, y in enumerate(layers)], single)
        if detail
        else None,
    )


@dataclass
class World:
    """One engine's answer, still right, and all that a fault may take from."""

    rng: np.random.Generator
    context: Context
    position: int
    height: int

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        shape, first = self.states.layers.shape, self.states.layers[0, 0, 0]
        printer.text(f"<{shape} {first}: {self.asked} at {self.position}, {self.height} rows>")

    @property
    def states(self) -> States:
        return self.context.states

    @property
    def asked(self) -> tuple[int, ...]:
        return self.context.asked

    @property
    def at(self) -> slice:
        return slice(self.position, self.position + self.height)

    def layer(self, n: int) -> FloatArray:
        if n == -1:
            return self.states.embedding[self.at].copy()
        if n == self.states.depth:
            return self.states.normed[self.at].copy()
        return self.states.layers[n, self.at].copy()

    def planes(self) -> list[FloatArray]:
        return [self.layer(a) for a in self.asked]

    def pick(self) -> int:
        return int(self.rng.integers(len(self.asked)))

    def labels(self, planes: list[FloatArray], dtype: str = "float32") -> list[Fault]:
        """The labels given; `explain` and `compare` must agree on red and green."""
        observed = Observed(tuple(planes), self.position, dtype)
        findings = explain(observed, self.context)
        assert compare(observed, self.context).ok == (not findings)
        assert all(each.evidence for each in findings)
        return [each.label for each in findings]


@st.composite
def worlds(draw: st.DrawFn, least: int = 1, heights: tuple[int, ...] = (1, 2, 3, 8, 40)) -> World:
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    depth = draw(st.sampled_from([6, 8, 12, 28, 48]))
    width = draw(st.sampled_from([32, 48, 64]))
    height = draw(st.sampled_from(heights))
    position = draw(st.sampled_from([0, 0, 5]))
    ids = st.integers(0, depth - 1)
    asked = draw(st.lists(ids, min_size=least, max_size=6, unique=True).map(sorted))
    weights = rng.uniform(0.5, 1.5, size=(depth + 1, width))
    length = position + height + draw(st.sampled_from([0, 3]))
    states = stream(rng, depth, width, length, weights)
    others = tuple(stream(rng, depth, width, length + n, weights, detail=False) for n in range(2))
    past = stream(rng, depth, width, height + 2, weights, detail=False)
    earlier = tuple(
        tuple(past.layers[a, skip : skip + height].copy() for a in asked) for skip in (0, 2)
    )
    context = Context(states, tuple(asked), others=others, earlier=earlier)
    return World(rng, context, position, height)


def rounded(x: FloatArray, bits: int) -> FloatArray:
    """To `bits` stored mantissa bits, nearest."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    scale = 2.0 ** (bits + 1)
    return np.ldexp(np.round(fraction * scale) / scale, exponent).astype(np.float32)


# One plane replaced: what, the label, rows needed for the label. With fewer: `unknown`.
Plant = Callable[[World, int, FloatArray], FloatArray]


def without(kind: str) -> Plant:
    def plant(w: World, a: int, y: FloatArray) -> FloatArray:
        return y - getattr(w.states, kind)[a, w.at]

    return plant


def detail(kind: str) -> Plant:
    return lambda w, a, y: getattr(w.states, kind)[a, w.at].copy()


def columns(order: Callable[[World, int], FloatArray]) -> Plant:
    return lambda w, a, y: y[:, order(w, y.shape[1])]


def part(share: float, fill: str) -> Plant:
    def plant(w: World, a: int, y: FloatArray) -> FloatArray:
        x, kept = y.copy(), int(y.shape[1] * share)
        n = (a + 3) % w.states.depth
        rest = {
            "zero": np.zeros_like(y),
            "garbage": w.rng.normal(size=y.shape),
            "layer": w.layer(n),
            "neighbour": w.layer(a + 1 if a + 1 < w.states.depth else a - 1),
        }[fill]
        x[:, kept:] = rest[:, kept:]
        return x

    return plant


def scaled_fp8(w: World, a: int, y: FloatArray) -> FloatArray:
    scale = np.abs(y).max(axis=1, keepdims=True) / 448
    return rounded(y / scale, 3) * scale.astype(np.float32)


def one_element(w: World, a: int, y: FloatArray) -> FloatArray:
    x = y.copy()
    x[w.rng.integers(len(x)), w.rng.integers(x.shape[1])] += 2 * np.abs(y).max()
    return x


def foreign(w: World, a: int, y: FloatArray) -> FloatArray:
    return w.context.others[1].layers[a, w.at].copy()


def stale(back: int) -> Plant:
    return lambda w, a, y: w.context.earlier[-back][w.asked.index(a)].copy()


ONE_PLANE: dict[str, tuple[Plant, Fault, int]] = {
    "attention": (detail("attention"), F.RESIDUAL_MISSING, 1),
    "mlp": (detail("mlp"), F.RESIDUAL_MISSING, 1),
    "stream": (without("mlp"), F.RESIDUAL_ONLY, 1),
    "stream-attention": (without("attention"), F.RESIDUAL_ONLY, 1),
    "final-norm": (detail("final_normed"), F.NORM_APPLIED, 1),
    "next-norm": (detail("next_normed"), F.NORM_APPLIED, 1),
    "unit-norm": (lambda w, a, y: norm(y), F.NORM_APPLIED, 1),
    "own-norm": (lambda w, a, y: norm(y, w.rng.uniform(0.5, 2, y.shape[1])), F.NORM_APPLIED, 3),
    "e4m3": (lambda w, a, y: rounded(y, 3), F.PRECISION_LOSS, 1),
    "e5m2": (lambda w, a, y: rounded(y, 2), F.PRECISION_LOSS, 1),
    "bfloat16": (lambda w, a, y: rounded(y, 7), F.PRECISION_LOSS, 1),
    "float16": (lambda w, a, y: y.astype(np.float16), F.PRECISION_LOSS, 1),
    "scaled-fp8": (scaled_fp8, F.PRECISION_LOSS, 1),
    "zero": (lambda w, a, y: np.zeros_like(y), F.PLANE_ZERO, 1),
    "poison": (lambda w, a, y: np.full_like(y, 7.5), F.PLANE_ZERO, 1),
    "half": (part(0.5, "zero"), F.PLANE_PARTIAL, 1),
    "eighth": (part(0.125, "zero"), F.PLANE_PARTIAL, 1),
    "half-garbage": (part(0.5, "garbage"), F.PLANE_PARTIAL, 1),
    "half-layer": (part(0.5, "layer"), F.PLANE_PARTIAL, 1),
    "most-neighbour": (part(0.8, "neighbour"), F.PLANE_PARTIAL, 1),
    "one-element": (one_element, F.PLANE_PARTIAL, 1),
    "halves": (columns(lambda w, h: np.roll(np.arange(h), h // 2)), F.PLANE_PERMUTED, 1),
    "rolled": (columns(lambda w, h: np.roll(np.arange(h), 1)), F.PLANE_PERMUTED, 1),
    "reversed": (columns(lambda w, h: np.arange(h)[::-1]), F.PLANE_PERMUTED, 1),
    "shuffled": (columns(lambda w, h: w.rng.permutation(h)), F.PLANE_PERMUTED, 1),
    "pairs": (columns(lambda w, h: np.arange(h) ^ 1), F.PLANE_PERMUTED, 1),
    "two-columns": (columns(lambda w, h: np.r_[1, 0, 2:h]), F.PLANE_PERMUTED, 1),
    "foreign": (foreign, F.PLANE_FOREIGN, 1),
    "stale": (stale(1), F.PLANE_STALE, 1),
    "stale-2": (stale(2), F.PLANE_STALE, 1),
    "one-nan": (
        lambda w, a, y: np.where(np.arange(y.size).reshape(y.shape) == 5, np.nan, y),
        F.NONFINITE,
        1,
    ),
    "infinite": (lambda w, a, y: np.full_like(y, np.inf), F.NONFINITE, 1),
    "doubled": (lambda w, a, y: 2 * y, F.UNKNOWN, 1),
    "negated": (lambda w, a, y: -y, F.UNKNOWN, 1),
    "noise-1e-3": (lambda w, a, y: y + 1e-3 * w.rng.normal(size=y.shape), F.UNKNOWN, 1),
    "noise-0.1": (lambda w, a, y: y + 0.1 * w.rng.normal(size=y.shape), F.UNKNOWN, 1),
    "garbage": (lambda w, a, y: w.rng.normal(size=y.shape), F.UNKNOWN, 1),
    "column-scale": (lambda w, a, y: y * w.rng.uniform(0.5, 2, y.shape[1]), F.UNKNOWN, 1),
    "between": (lambda w, a, y: (2 * y + w.layer(a + 1 if a == 0 else a - 1)) / 3, F.UNKNOWN, 1),
}


@pytest.mark.parametrize("name", ONE_PLANE)
@many
@given(worlds())
def test_one_plane_is_named(name: str, w: World) -> None:
    plant, label, needs = ONE_PLANE[name]
    planes, index = w.planes(), w.pick()
    planes[index] = plant(w, w.asked[index], planes[index])
    assert w.labels(planes) == [label if w.height >= needs else F.UNKNOWN]


@pytest.mark.parametrize("name", ONE_PLANE)
@many
@given(worlds())
def test_all_planes_are_one_fault(name: str, w: World) -> None:
    plant, label, needs = ONE_PLANE[name]
    planes = [plant(w, a, y) for a, y in zip(w.asked, w.planes(), strict=True)]
    same = len(planes) > 1 and name in ("infinite", "poison", "zero")
    assert same or len({p.tobytes() for p in planes}) == len(planes)
    assert w.labels(planes) == [label if w.height >= needs else F.UNKNOWN]


@pytest.mark.parametrize("name", ONE_PLANE)
@many
@given(worlds(heights=(8, 40)), st.sampled_from(["last", "later", "first"]))
def test_some_rows_are_found_and_named(name: str, w: World, which: str) -> None:
    plant, label, needs = ONE_PLANE[name]
    planes, index = w.planes(), w.pick()
    rows = {"last": slice(-1, None), "later": slice(1, None), "first": slice(0, 1)}[which]
    x = plant(w, w.asked[index], planes[index])
    bad = np.any(x != planes[index], axis=1)
    planes[index][rows] = x[rows]
    count = int(bad[rows].sum())
    if not count:
        assert w.labels(planes) == []
    else:
        assert w.labels(planes) == [label if count >= needs else F.UNKNOWN]


@pytest.mark.parametrize("step", [-1, 1])
@many
@given(worlds())
def test_all_ids_moved_are_one_shift(step: int, w: World) -> None:
    label = F.TAP_SHIFT_BEFORE if step == -1 else F.TAP_SHIFT_AFTER
    if step == 1 and w.asked == (w.states.depth - 1,):
        label = F.NORM_APPLIED  # of one plane, the normed state says no more than that
    assert w.labels([w.layer(a + step) for a in w.asked]) == [label]


@pytest.mark.parametrize("step", [-1, 1])
@many
@given(worlds(least=2))
def test_one_plane_moved_is_a_shift_unless_it_repeats_another(step: int, w: World) -> None:
    planes, index = w.planes(), w.pick()
    a = w.asked[index]
    planes[index] = w.layer(a + step)
    label = F.TAP_SHIFT_BEFORE if step == -1 else F.TAP_SHIFT_AFTER
    if a + step == w.states.depth:
        label = F.NORM_APPLIED
    elif a + step in w.asked:
        label = F.PLANE_REPEATED
    assert w.labels(planes) == [label]


@many
@given(worlds(least=2), st.data())
def test_planes_in_another_order(w: World, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(w.asked))).filter(lambda o: o != sorted(o)))
    planes = w.planes()
    assert w.labels([planes[i] for i in order]) == [F.TAP_ORDER]
    assert w.labels(planes[::-1]) == [F.TAP_ORDER]


@many
@given(worlds(least=2))
def test_sorted_planes_of_unsorted_ids(w: World) -> None:
    planes = w.planes()
    w.context = replace(w.context, asked=w.asked[::-1])
    assert w.labels(planes) == [F.TAP_ORDER]


@pytest.mark.parametrize("asked", [(5, 3, 1), (3, 5, 1), (2, 1), (5, 1, 3)])
@pytest.mark.parametrize(("step", "label"), [(-1, F.TAP_SHIFT_BEFORE), (1, F.TAP_SHIFT_AFTER)])
def test_sorted_planes_that_are_shifted_besides(
    asked: tuple[int, ...], step: int, label: Fault
) -> None:
    w = world(asked)
    assert w.labels([w.layer(n + step) for n in sorted(asked)]) == [F.TAP_ORDER, label]


@many
@given(worlds(least=2), st.data())
def test_one_plane_several_times(w: World, data: st.DataObject) -> None:
    planes = w.planes()
    source = w.pick()
    targets = data.draw(
        st.sets(st.sampled_from([i for i in range(len(planes)) if i != source]), min_size=1)
    )
    for target in targets:
        planes[target] = planes[source].copy()
    assert w.labels(planes) == [F.PLANE_REPEATED]


@pytest.mark.parametrize(
    ("asked", "delivered", "label"),
    [
        ((1, 2, 3), (0, 1, 2), F.TAP_SHIFT_BEFORE),
        ((1, 2, 3), (2, 3, 4), F.TAP_SHIFT_AFTER),
        ((4, 5), (4, 4), F.PLANE_REPEATED),
        ((4, 5), (5, 4), F.TAP_ORDER),
        ((4, 5, 6), (4, 4, 5), F.PLANE_REPEATED),
        ((0, 1, 2), (0, 0, 1), F.TAP_SHIFT_BEFORE),
        ((0, 1), (0, 0), F.PLANE_REPEATED),
        ((5, 6, 7), (6, 7, 7), F.TAP_SHIFT_AFTER),
        ((1, 3, 5), (5, 3, 1), F.TAP_ORDER),
        ((1, 3, 5), (3, 5, 1), F.TAP_ORDER),
        ((1, 1, 3), (3, 1, 1), F.TAP_ORDER),
        ((1, 3, 5), (1, 3, 7), F.UNKNOWN),
        ((1, 3, 5), (3, 5, 7), F.UNKNOWN),
        ((1, 3, 7), (2, 4, 8), F.TAP_SHIFT_AFTER),
        ((0, 3, 7), (-1, 2, 6), F.TAP_SHIFT_BEFORE),
        ((1, 3, 7), (1, 3, 8), F.NORM_APPLIED),
    ],
)
@pytest.mark.parametrize("height", [1, 8])
def test_which_layers_for_which_ids(
    asked: tuple[int, ...], delivered: tuple[int, ...], label: Fault, height: int
) -> None:
    w = world(asked, height)
    assert w.labels([w.layer(n) for n in delivered]) == [label]


def world(asked: tuple[int, ...], height: int = 8, position: int = 0, seed: int = 0) -> World:
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, size=(9, 64))
    states = stream(rng, 8, 64, position + height, weights)
    return World(rng, Context(states, asked), position, height)


@pytest.mark.parametrize("step", [1, -1, 2, -3])
@pytest.mark.parametrize("edge", ["wrapped", "zero", "kept"])
@many
@given(worlds(heights=(8, 40)))
def test_rows_moved(step: int, edge: str, w: World) -> None:
    planes = []
    for y in w.planes():
        x = np.roll(y, step, axis=0)
        ends = slice(0, step) if step > 0 else slice(step, None)
        if edge != "wrapped":
            x[ends] = 0 if edge == "zero" else y[ends]
        planes.append(x)
    assert w.labels(planes) == [F.ROW_SHIFT]


@many
@given(worlds(heights=(2, 3)))
def test_few_rows_moved_around(w: World) -> None:
    assert w.labels([np.roll(y, 1, axis=0) for y in w.planes()]) == [F.ROW_SHIFT]


@many
@given(worlds(heights=(3, 8)))
def test_rows_in_reverse(w: World) -> None:
    assert w.labels([y[::-1] for y in w.planes()]) == [F.ROW_SHIFT]


@many
@given(worlds())
def test_a_later_position_is_a_row_shift_even_for_one_row(w: World) -> None:
    if w.position:
        at = slice(w.position - 1, w.position - 1 + w.height)
        planes = [w.states.layers[a, at] for a in w.asked]
        assert w.labels(planes) == [F.ROW_SHIFT]


def test_blocks_of_earlier_verify_steps_are_stale() -> None:
    """Steps of 2, 4 and 3 rows, each delivered one step late; rejected rows are no one's."""
    w = world((1, 3, 5), height=9, position=4)
    garbage = w.rng.normal(size=(9, 64))
    planes = []
    for a in w.asked:
        y = w.states.layers[a]
        planes.append(np.concatenate([y[2:4], y[4:6], garbage[:2], y[6:9]]).astype(np.float32))
    assert w.labels(planes) == [F.PLANE_STALE]


def test_the_same_content_under_the_same_fault_is_not_stale() -> None:
    w = world((1, 3, 5))
    planes = w.planes()
    planes[1] = 2 * planes[1]
    w.context = replace(w.context, earlier=(tuple(planes), (planes[1], w.layer(6))))
    assert w.labels(planes) == [F.UNKNOWN]


@many
@given(worlds())
def test_right_planes_are_silent(w: World) -> None:
    planes = [y * (1 + 1e-6 * w.rng.normal(size=y.shape)) for y in w.planes()]
    assert w.labels(planes) == []
    assert w.labels([np.concatenate(planes, axis=1)]) == []
    assert w.labels([rounded(y, 7) for y in w.planes()], "bfloat16") == []
    assert w.labels([rounded(y, 10) for y in w.planes()], "float16") == []


@many
@given(worlds(), st.data())
def test_repeated_ids_as_asked_are_silent(w: World, data: st.DataObject) -> None:
    asked = tuple(data.draw(st.lists(st.sampled_from(w.asked), min_size=2, max_size=5)))
    w.context = replace(w.context, asked=asked)
    assert w.labels(w.planes()) == []


BF16: dict[str, tuple[Plant, Fault]] = {
    name: ONE_PLANE[name][:2]
    for name in (
        "attention", "mlp", "final-norm", "next-norm", "zero", "poison",
        "halves", "reversed", "shuffled", "foreign", "e4m3", "e5m2", "garbage", "infinite", "negated",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", BF16)
@many
@given(worlds(heights=(1, 8, 40)))
def test_narrow_planes_are_named(name: str, w: World) -> None:
    plant, label = BF16[name]
    planes, index = w.planes(), w.pick()
    noise = [y * (1 + 0.005 * w.rng.normal(size=y.shape)) for y in planes]
    noise[index] = plant(w, w.asked[index], noise[index])
    got = w.labels([rounded(x, 7) for x in noise], "bfloat16")
    assert got == [label]


@pytest.mark.parametrize("step", [-1, 1])
@many
@given(worlds(least=2, heights=(3, 8, 40)))
def test_narrow_planes_moved(step: int, w: World) -> None:
    label = F.TAP_SHIFT_BEFORE if step == -1 else F.TAP_SHIFT_AFTER
    planes = [rounded(w.layer(a + step), 7) for a in w.asked]
    assert w.labels(planes, "bfloat16") == [label]
