"""From a TOML table to a row: every wrong field, type or value is refused with its place.

A row's fields and types are those of the dataclass, so a field that is added there can be written
in TOML at once. What a type can't say is in the two lists of checks.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from matrix.errors import RegistryError
from matrix.faults import GIVES
from matrix.registry._pair import KEY, Baseline, Gate, Pair, Variant

if TYPE_CHECKING:
    from matrix.registry._expectation import Expectation

__all__ = ["OUTCOMES", "build", "expectation_problems", "pair_problems", "refuse_unknown"]

OUTCOMES: Final = ("fail", "warn", "crash", "timeout", "oom")
"""What an expectation may expect."""

Problem = tuple[str, str]
"""A field, and what is wrong with it and would be right."""

_Row = TypeVar("_Row")
_NESTED: Final[Mapping[str, type[Any]]] = {
    "gates": Gate,
    "baselines": Baseline,
    "variants": Variant,
}
_JSON: Final = ("hf_overrides", "engine_args", "examples")
_PLAIN: Final[Mapping[str, str]] = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "an array",
    "object": "a table",
}


def build(
    row_type: type[_Row],
    table: Mapping[str, Any],
    file: str,
    row: str,
    hidden: Collection[str] = (),
) -> _Row:
    """Make a row of `table`; the fields in `hidden` can't be written in a file.

    Raises:
        RegistryError: an unknown or missing field, a wrong type, or a value that isn't JSON's.
    """
    known = [field.name for field in fields(row_type) if field.name not in hidden]  # type: ignore[arg-type]
    refuse_unknown(table, known, file, row)
    for name, nested in _NESTED.items():
        inner = table.get(name, ()) if name in known else ()
        for index, item in enumerate(inner if isinstance(inner, list) else ()):
            if isinstance(item, Mapping):
                own = [field.name for field in fields(nested)]
                refuse_unknown(item, own, file, row, f"{name}[{index}].")
    for name in _JSON:
        if name in known and not _is_json(table.get(name)):
            raise RegistryError(file, row, name, "holds a date, nan or infinity; JSON has none")
    try:
        return msgspec.convert(table, row_type)
    except msgspec.ValidationError as error:
        raise RegistryError(file, row, *_translate(row_type, str(error))) from None


def refuse_unknown(
    table: Mapping[str, Any], known: Collection[str], file: str, row: str, prefix: str = ""
) -> None:
    """Raise `RegistryError` for a key of `table` that isn't `known`, naming the nearest."""
    for name in table:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise RegistryError(file, row, prefix + name, f"unknown field; {hint}")


_MOST: Final = 1024
"""Layers of a model, and tokens of a block, are fewer by far."""


def pair_problems(pair: Pair) -> Iterator[Problem]:
    """What no type can say of a `Pair`."""
    depth, ids = pair.num_target_layers, pair.target_layer_ids
    if not KEY.match(pair.key):
        yield "key", f"{pair.key!r} should match [a-z0-9][a-z0-9._-]*"
    yield from _blank(pair, "target", "speculative_model", "arch", "draft_class", "dtype")
    yield from _below_one(
        pair,
        "num_target_layers",
        "width_factor",
        "streams",
        "fc_in",
        "hidden_size",
        "vocab_size",
        "draft_num_hidden_layers",
        "draft_sliding_window",
        "draft_vocab_size",
        "num_speculative_tokens",
        "max_model_len",
        "max_num_seqs",
    )
    yield from _above_most(pair, "num_target_layers", "block_size", "draft_num_hidden_layers")
    if not ids:
        yield "target_layer_ids", "is empty; a draft reads at least one layer"
    if outside := [layer for layer in ids if not 0 <= layer < depth]:
        yield "target_layer_ids", f"{outside} are not in 0..{depth - 1} (num_target_layers {depth})"
    if twice := sorted({layer for layer in ids if ids.count(layer) > 1}):
        yield "target_layer_ids", f"{twice} stand there more than once"
    yield from _width_problems(pair)
    yield from _draft_problems(pair)
    yield from _revision_problems(pair)
    yield from _transformers_problems(pair)
    for index, gate in enumerate(pair.gates):
        where = f"gates[{index}]."
        yield from ((where + name, said) for name, said in _blank(gate, "engine", "reason"))
        if said := _bad_specifier(gate.version):
            yield where + "version", said
    for index, baseline in enumerate(pair.baselines):
        where = f"baselines[{index}]."
        yield from ((where + name, said) for name, said in _blank(baseline, "source"))
        if baseline.acceptance_length < 1:
            yield where + "acceptance_length", "is below 1, the bonus token's own"
    for index, variant in enumerate(pair.variants):
        blank = _blank(variant, "engine", "value", "source")
        yield from ((f"variants[{index}].{name}", said) for name, said in blank)


def _above_most(pair: Pair, *names: str) -> Iterator[Problem]:
    for name in names:
        if (value := getattr(pair, name)) is not None and value > _MOST:
            yield name, f"{value} is above {_MOST}, more than any model has"


def _width_problems(pair: Pair) -> Iterator[Problem]:
    factor, taps = pair.width_factor, len(pair.target_layer_ids)
    if factor not in (1, pair.streams):
        yield "width_factor", f"{factor} is neither 1 nor the number of streams, {pair.streams}"
    if pair.fc_in is not None and pair.hidden_size is not None:
        due = taps * pair.hidden_size * factor
        if pair.fc_in != due:
            said = f"{taps} ids x hidden_size {pair.hidden_size} x width_factor {factor}"
            yield "fc_in", f"{pair.fc_in} is not {due}: {said}"


def _revision_problems(pair: Pair) -> Iterator[Problem]:
    for name in ("revision", "target_revision"):
        written = getattr(pair, name)
        if written is not None and not re.fullmatch(r"[0-9a-f]{40}", written):
            yield (
                name,
                f"{written!r} is not a full hash"
                + ("; a part goes to revision_prefix" if name == "revision" else ""),
            )


def _draft_problems(pair: Pair) -> Iterator[Problem]:
    mask, vocab = pair.mask_token_id, pair.vocab_size
    if mask is not None and not 0 <= mask < (vocab or mask + 1):
        yield "mask_token_id", f"{mask} is outside the vocabulary 0..{(vocab or 1) - 1}"
    if pair.drafts is not None and pair.drafts < 1:
        yield "block_size", f"{pair.block_size} leaves no drafts for {pair.speculative_method}"
    if vocab and pair.draft_vocab_size and pair.draft_vocab_size > vocab:
        yield "draft_vocab_size", f"{pair.draft_vocab_size} is above vocab_size {vocab}"
    kinds, layers = pair.draft_layer_types, pair.draft_num_hidden_layers
    if kinds is not None and layers is not None and len(kinds) != layers:
        yield "draft_layer_types", f"has {len(kinds)} entries for {layers} draft layers"
    if pair.final_tap != "unknown" and not pair.final_tap_source.strip():
        yield "final_tap_source", f"is blank; say where final_tap {pair.final_tap!r} is known from"


def _transformers_problems(pair: Pair) -> Iterator[Problem]:
    bounds: list[Version] = []
    for name in ("min_transformers_version", "max_transformers_version"):
        written = getattr(pair, name)
        try:
            bounds += [Version(written)] if written is not None else []
        except InvalidVersion:
            yield name, f"{written!r} is not a version (PEP 440)"
    if len(bounds) == 2 and bounds[0] > bounds[1]:
        yield "max_transformers_version", f"{bounds[1]} is below the minimum {bounds[0]}"
    bounded = pair.min_transformers_version or pair.max_transformers_version
    if bounded and not (pair.transformers_version_reason or "").strip():
        yield "transformers_version_reason", "is blank; say why transformers is bounded"


def expectation_problems(row: Expectation) -> Iterator[Problem]:
    """What no type can say of an `Expectation`."""
    yield from _blank(row, "engine", "reason")
    if said := _bad_specifier(row.version):
        yield "version", said
    if (row.pair is None) == (row.arch is None):
        yield "pair", "give exactly one of pair and arch"
    yield from _blank(row, *(name for name in ("pair", "arch") if getattr(row, name) is not None))
    # Rules of scan and preflight stand in the same table, but write no cells.
    cells = [clause for clause in GIVES if not clause.startswith(("SRC-", "CFG-"))]
    clauses = fnmatch.filter(cells, row.clause)
    if not clauses:
        near = get_close_matches(row.clause.upper(), cells, n=1, cutoff=0.0)[0]
        yield "clause", f"{row.clause!r} names no clause; the nearest is {near}"
    elif not any(row.fault in GIVES[clause] for clause in clauses):
        yield "fault", f"{row.clause} can't give {row.fault.value!r}"
    if row.outcome not in OUTCOMES:
        yield "outcome", f"{row.outcome!r} is none of {', '.join(OUTCOMES)}"
    link = urlsplit(row.link)
    if link.scheme not in {"http", "https"} or not link.hostname:
        yield "link", f"{row.link!r} is no http or https address"


def _blank(row: object, *names: str) -> Iterator[Problem]:
    return ((name, "is blank") for name in names if not getattr(row, name).strip())


def _below_one(row: object, *names: str) -> Iterator[Problem]:
    values = ((name, getattr(row, name)) for name in names)
    return ((name, f"{v} is below 1") for name, v in values if v is not None and v < 1)


def _bad_specifier(written: str) -> str | None:
    try:
        empty = not SpecifierSet(written)
    except InvalidSpecifier:
        return f"{written!r} is not a version specifier (PEP 440), like '>=0.24.0,<0.25'"
    return "is blank; '>=0' means every version" if empty else None


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _translate(row_type: type[Any], said: str) -> Problem:
    """Field and plain sentence of a msgspec message (`Expected `int`, got `str` - at `$.x``)."""
    problem, _, at = said.partition(" - at ")
    field = at.strip("`").removeprefix("$").lstrip(".")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", problem):
        return ".".join(filter(None, (field, missing[1]))), "is missing"
    if types := re.fullmatch(r"Expected `(.+)`, got `(.+)`", problem):
        wanted, got = (_plain(words) for words in types.groups())
        return field, f"should be {wanted}, not {got}"
    if odd := re.fullmatch(r"Invalid enum value '(.*)'", problem):
        return field, _not_one_of(odd[1], _choices(_hint(row_type, field)))
    return field, problem


def _plain(types: str) -> str:
    return " or ".join(_PLAIN.get(word, word) for word in types.split(" | ") if word != "null")


def _hint(row_type: type[Any], field: str) -> Any:
    """The type of a field, or of a nested row's (`gates[...].version`)."""
    outer, _, name = field.rpartition(".")
    owner = _NESTED[outer.partition("[")[0]] if outer else row_type
    return get_type_hints(owner)[name]


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    if type(None) in get_args(hint):
        return [choice for kind in get_args(hint)[:-1] for choice in _choices(kind)]
    return [member.value for member in hint] if issubclass(hint, Enum) else []


def _not_one_of(value: Any, choices: list[str]) -> str:
    if len(choices) <= 6:
        return f"{value!r} is none of {', '.join(choices)}"
    near = get_close_matches(str(value), choices, n=3, cutoff=0.3) or choices[:3]
    return f"{value!r} is not known; the nearest are {', '.join(near)}"
