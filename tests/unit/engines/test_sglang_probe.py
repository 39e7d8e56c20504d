"""Hooks tried on objects that were not loaded: as SGLang's classes are made, without SGLang."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from matrix.engines._sglang_probe import made_up, reached, standin  # noqa: E402

DEPTH = 8


class Body(nn.Module):
    """Stores numbers, as Llama's does."""

    def __init__(self) -> None:
        raise AssertionError("a body is never loaded")


class Marking(Body):
    """Marks layers, as Qwen3.5's does."""

    def set_dflash_layers_to_capture(self, numbers: list[int]) -> None:
        for number in numbers:
            self.layers[number]._is_layer_to_capture = True


class Storing(nn.Module):
    body_cls: type[nn.Module] = Body

    def __init__(self, config: Any) -> None:
        self.model = self.body_cls(
            config=config,
        )

    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        if not self.pp_group.is_last_rank:
            return
        if len(self.model.layers) != self.config.num_hidden_layers:
            raise AssertionError
        self.model.layers_to_capture = {i + 1 for i in ids}


class HandingOn(Storing):
    body_cls = Marking

    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        self.model.set_dflash_layers_to_capture([i + 1 for i in ids])


class Around(nn.Module):
    """A wrapper whose inner class is a parameter, as multimodal ones have it."""

    def __init__(self, config: Any, inner: type[nn.Module] = HandingOn) -> None:
        self.language_model = inner(config)

    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        self.language_model.set_dflash_layers_to_capture(ids)


class AroundAnother(Around):
    def __init__(self, config: Any, inner: type[nn.Module] = Storing) -> None:
        super().__init__(config, inner)


class Built(Storing):
    """Builds its body in a method."""

    def __init__(self, config: Any) -> None:
        self.model = self.build(config)

    def build(self, config: Any) -> nn.Module:
        return Marking(config)

    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        self.model.set_dflash_layers_to_capture(ids)


class NotHandedOn(Storing):
    """Its body has no such method."""

    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        self.model.set_dflash_layers_to_capture(ids)


class Needy(Storing):
    """Looks at what only a loaded model has."""

    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        self.model.layers_to_capture = ids * self.model.experts


class NeedyOfALayer(Storing):
    def set_dflash_layers_to_capture(self, ids: list[int]) -> None:
        self.model.layers_to_capture = [self.model.layers[i].rank for i in ids]


@pytest.mark.parametrize(
    ("cls", "due"),
    [
        (Storing, [2, 4, 6]),
        (HandingOn, [2, 4, 6]),
        (Around, [2, 4, 6]),
        (AroundAnother, [2, 4, 6]),
        (Built, [1, 3, 5]),
    ],
)
def test_what_the_innermost_body_holds(cls: type[Any], due: list[int]) -> None:
    made = standin(cls, DEPTH, last_rank=True)
    assert reached(made) is None
    made.set_dflash_layers_to_capture([1, 3, 5])
    assert reached(made) == due


def test_a_rank_that_is_not_the_last_holds_nothing() -> None:
    made = standin(Storing, DEPTH, last_rank=False)
    made.set_dflash_layers_to_capture([1, 3, 5])
    assert reached(made) is None
    assert made.pp_group.world_size == 2


@pytest.mark.parametrize("cls", [Needy, NeedyOfALayer])
def test_what_the_object_lacks_is_no_fault_of_the_hook(cls: type[Any]) -> None:
    made = standin(cls, DEPTH, last_rank=True)
    with pytest.raises(AttributeError) as caught:
        made.set_dflash_layers_to_capture([1, 3])
    assert made_up(made, caught.value)


def test_a_method_that_the_body_lacks_is_one() -> None:
    made = standin(NotHandedOn, DEPTH, last_rank=True)
    with pytest.raises(AttributeError) as caught:
        made.set_dflash_layers_to_capture([1, 3])
    assert not made_up(made, caught.value)
    assert "set_dflash_layers_to_capture" in str(caught.value)


def test_other_exceptions_are_the_hook_s_own() -> None:
    made = standin(Storing, DEPTH, last_rank=True)
    assert not made_up(made, ValueError("ids are needed"))
    with pytest.raises(AttributeError) as caught:
        getattr(SimpleNamespace, "nothing")  # noqa: B009 - an attribute of something else
    assert not made_up(made, caught.value)


def test_the_kernels_that_stand_in_can_be_imported_and_not_called() -> None:
    from matrix.engines._standins.site.vllm import _custom_ops

    with pytest.raises(NotImplementedError, match="rms_norm is a stand-in"):
        _custom_ops.rms_norm(1, 2)
