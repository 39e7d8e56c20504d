"""What one source file says, as plain values.

The facts of a file depend on its bytes and nothing else, so they can be computed in another
process and kept by content hash. Everything that needs a second file (inheritance, which class a
wrapper builds, the way of a layer id) is decided later, from facts alone.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Attr",
    "Binding",
    "ClassFacts",
    "Effect",
    "Forward",
    "FunctionFacts",
    "Guard",
    "IdShift",
    "ModuleFacts",
    "Ref",
    "Setter",
    "Site",
]


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """An expression that names a class, as far as it can be told without running it.

    `kind` is `name` (a dotted name), `call` (`name` called with `args`), `type` (a class made by
    `type(name, bases, ...)`; `args` are the bases), `choice` (one of `args`), `self` (attribute
    `name` of the instance or of its class), `param` (parameter `name`, default in `args`),
    `method` (what method `name` of the instance returns), `child` (what the instance holds at the
    dotted path `name`), `arch` (the class registered as `name`), `import` (`name` is
    `module:attribute`, imported in a function), `none`, or `unknown` (`name` is the reason).
    """

    kind: str
    name: str
    args: tuple[Ref, ...] = ()


class Guard(msgspec.Struct, frozen=True, array_like=True):
    """One condition a binding stands under.

    `platforms` is the set on which the condition holds, `None` when it can't be told from source.
    """

    platforms: tuple[str, ...] | None
    positive: bool = True


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """One statement that binds a name: a class, a function, an import, or another expression."""

    kind: str
    """`class`, `function`, `import` (`ref.name` is `module:attribute` or `module:`), `value`."""
    ref: Ref
    guards: tuple[Guard, ...] = ()


class Attr(msgspec.Struct, frozen=True, array_like=True):
    """One statement in a class body (or on the class, from outside) that binds an attribute."""

    kind: str
    """`def`, `value`, `none`, or `declared` (an annotation without a value)."""
    line: int
    ref: Ref | None = None
    guarded: bool = False
    source: str = ""
    """For a hook, the text of its definition: tells equal duplicates from different ones."""


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """What a hook does with the layer ids it gets.

    `kind` is `store` (assigns them to attribute `name` of `path`), `mark` (sets flag `name` on the
    layers of `path`) or `call` (hands them to method `name` of `path`). `path` is dotted from
    `self` (empty for `self`, `super` for the next class, `?` when it can't be told). `offset` is
    what was added to each id, `None` when that can't be told or differs between branches.
    """

    kind: str
    path: str
    name: str
    offset: int | None
    line: int


class Setter(msgspec.Struct, frozen=True, array_like=True):
    """One definition of a hook."""

    line: int
    effects: tuple[Effect, ...] = ()
    checks: tuple[str, ...] = ()
    """Of `none`, `range`, `order`, `dup`, `last` (the last layer is refused), `pp` (refused)."""
    silent_pp: int = 0
    """Line where a pipeline rank returns without a word; 0 when there is none."""
    raises: bool = False
    """The hook does nothing but raise."""


class Site(msgspec.Struct, frozen=True, array_like=True):
    """One place where a body compares a boundary with the ids it was given.

    `where` is `entry` (before the loop over the layers), `before` or `after` the layer's call
    within it, `end` after it. `offset` is c in `index + c in ids`; for `end`, in `depth + c in
    ids`; `None` when it can't be told.
    """

    where: str
    container: str
    offset: int | None
    line: int


class Forward(msgspec.Struct, frozen=True, array_like=True):
    """How a method hands planes on."""

    returns: tuple[tuple[int, int], ...] = ()
    """(length, line) of each returned tuple that holds the planes."""
    unpacks: tuple[tuple[int, int], ...] = ()
    """(length, line) of each assignment that takes planes out of a tuple."""
    drops: int = 0
    """Line where the tuple that a module returned is taken apart without its planes; 0 for none."""


class IdShift(msgspec.Struct, frozen=True, array_like=True):
    """One place outside a model where DFlash layer ids are read or moved."""

    function: str
    key: str
    """The config key they are read from, or the name of the variable that is moved."""
    offset: int
    line: int
    names: tuple[str, ...] = ()
    """The models and drafts that conditions around it name; empty when it serves all."""


class FunctionFacts(msgspec.Struct, array_like=True):
    """A function that may return a class: its parameters, local classes and returned values."""

    params: tuple[str, ...] = ()
    classes: dict[str, ClassFacts] = {}
    returns: tuple[Ref, ...] = ()


class ClassFacts(msgspec.Struct, array_like=True):
    """One class statement."""

    name: str
    line: int
    bases: tuple[Ref, ...] = ()
    decorators: tuple[Ref, ...] = ()
    attrs: dict[str, list[Attr]] = {}
    children: dict[str, list[Ref]] = {}
    """Attribute of the instance -> the expressions whose call builds it."""
    init_args: dict[str, Ref] = {}
    """Class-valued arguments that `__init__` hands to `super().__init__`; positional as `#0`."""
    init_params: tuple[str, ...] = ()
    returned: dict[str, Ref] = {}
    """Method -> the class expression whose instance it returns, for builder methods."""
    setters: dict[str, list[Setter]] = {}
    sites: dict[str, list[Site]] = {}
    forwards: dict[str, Forward] = {}
    inherits: tuple[str, ...] = ()
    """Methods that call the method of the same name of the next class."""
    early_pp: int = 0
    """Line where `forward` returns early on a rank that isn't the last; 0 when it doesn't."""


class ModuleFacts(msgspec.Struct, array_like=True):
    """Everything the scan keeps of one file."""

    names: dict[str, list[Binding]] = {}
    stars: list[Binding] = []
    classes: dict[str, ClassFacts] = {}
    functions: dict[str, FunctionFacts] = {}
    lazy: dict[str, list[Binding]] = {}
    """Names that the module's own `__getattr__` imports; under `*` where it takes any name from."""
    tables: dict[str, dict[str, tuple[str, str, int]]] = {}
    """Dict literals of architecture -> (module, class, line), by variable."""
    tables_of: dict[str, list[str]] = {}
    """Dict literals that unpack other tables, by variable."""
    entries: list[Ref] = []
    """What the module registers under `EntryClass`."""
    shifts: list[IdShift] = []
    refusals: dict[str, tuple[str, ...]] = {}
    """Function that reads layer ids -> what it refuses, as in `Setter.checks`."""
    words: list[str] = []
    """Words of interest that occur as names: tells whether an engine has a mechanism at all."""
