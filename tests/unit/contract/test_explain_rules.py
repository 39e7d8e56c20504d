"""Number and shape of planes, the last layer, several faults at once, and what `compare` says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from test_explain import World, many, norm, rounded, world, worlds

from matrix.contract._explain import Context, Observed, compare, explain
from matrix.errors import HarnessError
from matrix.faults import Fault, Phase

F = Fault


def evidence(w: World, planes: list[np.ndarray]) -> str:
    (finding,) = explain(Observed(tuple(planes), w.position, "float32"), w.context)
    return finding.evidence


def test_no_planes_are_a_hollow_hook() -> None:
    w = world((1, 3, 5))
    assert w.labels([]) == [F.HOOK_HOLLOW]
    assert w.labels([np.zeros((8, 0), np.float32)]) == [F.HOOK_HOLLOW]
    assert w.labels([np.zeros((8, 0), np.float32)] * 3) == [F.HOOK_HOLLOW]


@pytest.mark.parametrize("kept", [(0,), (2,), (0, 2), (1, 2)])
def test_fewer_planes_than_ids_are_missing(kept: tuple[int, ...]) -> None:
    w = world((1, 4, 6))
    planes = [w.planes()[i] for i in kept]
    assert w.labels(planes) == [F.PLANE_MISSING]
    assert w.labels([np.concatenate(planes, axis=1)]) == [F.PLANE_MISSING]
    assert f"{len(kept)} planes for layer ids [1, 4, 6]" in evidence(w, planes)


@pytest.mark.parametrize(
    ("asked", "delivered", "label"),
    [
        ((1, 3, 7), (2, 4), F.TAP_SHIFT_AFTER),
        ((0, 3, 5), (2, 4), F.TAP_SHIFT_BEFORE),
        ((0, 3, 7), (2, 6), F.TAP_SHIFT_BEFORE),
        ((1, 3, 5), (2, 4), F.PLANE_MISSING),
    ],
)
def test_a_shift_past_the_end_loses_a_plane(
    asked: tuple[int, ...], delivered: tuple[int, ...], label: Fault
) -> None:
    w = world(asked)
    assert w.labels([w.layer(n) for n in delivered]) == [label]


@pytest.mark.parametrize(
    ("asked", "delivered", "labels"),
    [
        ((1, 1, 3), (1, 3), [F.TAP_DUP_SILENT]),
        ((5, 1, 5), (1, 5), [F.TAP_DUP_SILENT]),
        ((4, 4, 4), (4,), [F.TAP_DUP_SILENT]),
        ((1, 1, 3, 3), (1, 3, 3), [F.TAP_DUP_SILENT]),
        ((1, 1, 3), (0, 2), [F.TAP_DUP_SILENT, F.TAP_SHIFT_BEFORE]),
        ((1, 1, 3), (1,), [F.PLANE_MISSING]),
    ],
)
def test_swallowed_repeats(
    asked: tuple[int, ...], delivered: tuple[int, ...], labels: list[Fault]
) -> None:
    w = world(asked)
    assert w.labels([w.layer(n) for n in delivered]) == labels


@pytest.mark.parametrize(
    "shapes",
    [
        [(8, 64), (8, 64), (8, 64), (8, 64)],
        [(8, 64), (8, 32), (8, 64)],
        [(8, 64), (7, 64), (8, 64)],
        [(9, 64)] * 3,
        [(0, 64)] * 3,
        [(8, 190)],
        [(8, 256)],
        [(1, 8, 64)] * 3,
        [(8,)] * 3,
        [(8, 64), (8, 0), (8, 64)],
    ],
)
def test_wrong_shapes(shapes: list[tuple[int, ...]]) -> None:
    w = world((1, 3, 5))
    assert w.labels([np.ones(shape, np.float32) for shape in shapes]) == [F.PLANE_SHAPE]


def test_negative_position_is_a_wrong_shape() -> None:
    w = world((1, 3, 5))
    planes = w.planes()
    w.position = -1
    assert w.labels(planes) == [F.PLANE_SHAPE]


@many
@given(worlds())
def test_the_last_layer_raw_or_normed(w: World) -> None:
    last = w.states.depth - 1
    raw, normed = w.layer(last), w.layer(last + 1)
    bare = norm(raw)
    for final, red in (
        ("raw", {F.NORM_APPLIED: normed}),
        ("normed", {F.NORM_MISSING: raw}),
        ("either", {F.NORM_APPLIED: bare} if w.height > 1 else {}),
    ):
        w.context = replace(w.context, asked=(0, last), final=final)  # type: ignore[arg-type]
        green = {"raw": [raw], "normed": [normed], "either": [raw, normed]}[final]
        for plane in green:
            assert w.labels([w.layer(0), plane]) == []
            assert w.labels([plane, w.layer(0)]) == [F.TAP_ORDER]
            assert w.labels([w.layer(0), np.zeros_like(plane)]) == [F.PLANE_ZERO]
        for label, plane in red.items():
            got = w.labels([w.layer(0), plane])
            assert got == [label] or (final == "either" and got == [F.UNKNOWN])
        assert w.labels([w.layer(0), w.layer(last - 1)]) == [F.TAP_SHIFT_BEFORE]


@many
@given(worlds(heights=(3, 8)))
def test_without_detail_less_has_a_name_and_none_is_wrong(w: World) -> None:
    full = w.states
    bare = replace(full, attention=None, mlp=None, final_normed=None, next_normed=None)
    w.context = replace(w.context, states=bare)
    for kind in ("attention", "mlp"):
        planes = [getattr(full, kind)[a, w.at] for a in w.asked]
        assert w.labels(planes) == [F.UNKNOWN]
    normed = [full.next_normed[a, w.at] for a in w.asked]  # type: ignore[index]
    assert w.labels(normed) == [F.NORM_APPLIED]
    assert w.labels([w.layer(a - 1) for a in w.asked]) == [F.TAP_SHIFT_BEFORE]


@many
@given(worlds(least=3, heights=(8, 40)))
def test_numbers_interleaved_across_planes(w: World) -> None:
    planes = w.planes()
    joined = np.stack(planes, axis=2).reshape(w.height, -1)  # [T, H, n] where [T, n, H] is due
    assert w.labels([joined]) == [F.PLANE_PERMUTED]


def test_different_faults_of_different_planes_are_all_named() -> None:
    w = world((1, 3, 5, 6))
    planes = w.planes()
    planes[0] = np.zeros_like(planes[0])
    planes[1] = planes[1][:, ::-1]
    planes[3] = np.full_like(planes[3], np.nan)
    assert set(w.labels(planes)) == {F.PLANE_ZERO, F.PLANE_PERMUTED, F.NONFINITE}


def test_different_faults_of_different_rows_are_all_named() -> None:
    w = world((1, 3, 5))
    planes = w.planes()
    planes[1][0] = 0
    planes[1][3:6] = w.layer(2)[3:6]
    assert w.labels(planes) == [F.TAP_SHIFT_BEFORE, F.PLANE_ZERO]
    found = explain(Observed(tuple(planes), 0, "float32"), w.context)
    assert "plane 1, positions 3 to 5, is layer 2's output" in found[0].evidence
    assert "plane 1, position 0, is zero" in found[1].evidence


def test_unknown_comes_last() -> None:
    w = world((1, 3, 5))
    planes = [2 * y for y in w.planes()]
    planes[2] = w.layer(4)
    assert w.labels(planes) == [F.TAP_SHIFT_BEFORE, F.UNKNOWN]


def test_evidence_has_distances_and_the_runner_up() -> None:
    w = world((1, 3, 5))
    planes = [w.layer(1), w.layer(3), w.layer(4) * (1 + 1e-6)]
    text = evidence(w, planes)
    assert text.startswith(
        "plane 2 is layer 4's output (relative distance 9e-07), expected layer 5 ("
    )
    off = np.median(
        np.linalg.norm(w.layer(4) - w.layer(5), axis=1) / np.linalg.norm(w.layer(5), axis=1)
    )
    assert f"expected layer 5 ({off:.2g}); runner-up layer " in text


def test_the_phase_is_handed_on() -> None:
    w = world((1, 3))
    for planes in ([], [w.layer(1)], [w.layer(0), w.layer(2)], [w.layer(1), w.layer(3)[:, :5]]):
        observed = Observed(tuple(planes), 0, "float32", Phase.DECODE)
        (finding,) = explain(observed, w.context)
        assert finding.phase is Phase.DECODE


def test_an_illegal_id_is_never_right() -> None:
    for asked in ((1, 8), (1, -1)):
        w = world(asked)
        planes = [w.layer(1), w.layer(7)]
        assert w.labels(planes) == [F.UNKNOWN]
        match = compare(Observed(tuple(planes), 0, "float32"), w.context).planes[1]
        assert (match.matched, match.error) == (7, float("inf"))


def test_a_dtype_that_planes_dont_have() -> None:
    w = world((1,))
    with pytest.raises(HarnessError, match="'int8'"):
        explain(Observed((w.layer(1),), 0, "int8"), w.context)


def test_compare_says_how_close() -> None:
    w = world((1, 3, 5))
    planes = w.planes()
    planes[1] = w.layer(4)
    planes[1][0] = w.layer(3)[0]
    result = compare(Observed(tuple(planes), 0, "float32"), w.context)
    match = result.planes[1]
    assert (match.asked, match.matched, match.wrong) == (3, 4, tuple(range(1, 8)))
    direct = np.linalg.norm(planes[1] - w.layer(3), axis=1) / np.linalg.norm(w.layer(3), axis=1)
    assert match.error == pytest.approx(direct.max(), rel=1e-6)
    assert result.worst == match.error
    assert result.margin == pytest.approx(1e-4 / direct.max(), rel=1e-6)
    for n, distance in enumerate(match.distances):
        y = w.layer(n)
        rows = np.linalg.norm(planes[1] - y, axis=1) / np.linalg.norm(y, axis=1)
        assert distance == pytest.approx(np.median(rows), abs=1e-7)
    assert [m.matched for m in result.planes] == [1, 4, 5]


def test_the_tolerance_decides_in_full_precision() -> None:
    w = world((1, 3, 5))
    planes = [y * (1 + 5e-4) for y in w.planes()]
    assert w.labels(planes) == [F.UNKNOWN]
    w.context = replace(w.context, tolerance=1e-3)
    assert w.labels(planes) == []
    result = compare(Observed(tuple(planes), 0, "float32"), w.context)
    assert result.margin == pytest.approx(2, rel=1e-3)


def test_a_nearer_layer_is_red_within_the_tolerance() -> None:
    w = world((1, 3))
    layers = w.states.layers.copy()
    layers[2] = layers[3] * (1 + 5e-5)
    w.context = replace(w.context, states=replace(w.states, layers=layers))
    planes = [w.layer(1), w.layer(2)]
    assert not compare(Observed(tuple(planes), 0, "float32"), w.context).ok


@pytest.mark.parametrize("row", [0, 3, 7])
def test_one_narrow_row_is_found(row: int) -> None:
    w = world((1, 3, 5))
    planes = [rounded(y, 7) for y in w.planes()]
    planes[1][row] = rounded(w.layer(2), 7)[row]
    assert w.labels(planes, "bfloat16") == [F.TAP_SHIFT_BEFORE]


def test_long_sequences_are_compared_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world((1, 3, 5), height=40)
    planes = w.planes()
    planes[2][33] = w.layer(4)[33]
    observed = Observed(tuple(planes), 0, "float32")
    whole = compare(observed, w.context)
    monkeypatch.setattr("matrix.contract._compare._BLOCK", 7 * 8 * 64)
    assert compare(observed, w.context) == whole
    assert whole.planes[2].wrong == (33,)


def test_one_layer_models_have_no_runner_up_among_layers() -> None:
    w = world((0,))
    s = w.states
    one = replace(
        s, layers=s.layers[:1], attention=None, mlp=None, final_normed=None, next_normed=None
    )
    context = Context(one, (0,))
    assert explain(Observed((s.layers[0],), 0, "float32"), context) == ()
    (finding,) = explain(Observed((s.embedding,), 0, "float32"), context)
    assert finding.label is F.TAP_SHIFT_BEFORE
