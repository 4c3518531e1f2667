"""Filters as they are written: a tree of constraints under `and`, `or` and `not`.

The tree keeps what its author wrote, so that `explain` can speak of it; `rankcast.model.filters` lowers it to the
normal form that engines work with. Build trees in Python with `attr`:

>>> wanted = (attr("year") > 1990) & ~attr("genre").is_in("horror", "war")
>>> wanted.depth
3
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from rankcast.model.errors import FilterTooLargeError, FilterTypeError, shown
from rankcast.model.values import MAX_NAME_LENGTH, Family, Value, checked_constant, family_of
from rankcast.model.valuesets.patterns import Pattern

MAX_DEPTH = 200
"""Nesting of and/or/not. People write fewer than ten levels; generated filters nest by mistake, and recursion over the
tree must stay far away from Python's own limit."""

MAX_PATTERN_LENGTH = 1_000
"""Characters of a `like`, `prefix`, `suffix` or `contains`. Searching for a pattern with `_` takes time that grows with
the length of text and pattern multiplied, and all patterns on one attribute are compared with each other."""


class Operator(Enum):
    """What a constraint asks of its attribute."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    BETWEEN = "between"
    IN = "in"
    LIKE = "like"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    CONTAINS = "contains"
    EXISTS = "exists"
    HAS = "has"
    HAS_ANY = "has any"
    HAS_ALL = "has all"
    HAS_NONE = "has none"

    __hash__ = object.__hash__  # each value is there once; an Enum would hash its name, in Python


ORDERINGS = frozenset((Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.BETWEEN))
PATTERNS = frozenset((Operator.LIKE, Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS))
OF_ELEMENTS = frozenset((Operator.HAS, Operator.HAS_ANY, Operator.HAS_ALL, Operator.HAS_NONE))
"""What is asked of lists; a scalar is a list of one."""
OF_SEVERAL = frozenset((Operator.IN, *OF_ELEMENTS)) - {Operator.HAS}
"""Operators that take as many constants as one likes."""


class _Combinable(Struct, frozen=True, gc=False):
    """The Python spelling of `and`, `or`, `not`: & | ~.

    A tree refers to nothing above it, so the garbage collector need not look at the trees of all subscribers.
    """

    def __and__(self, other: Expression) -> Expression:
        return all_of(cast("Expression", self), other)

    def __or__(self, other: Expression) -> Expression:
        return any_of(cast("Expression", self), other)

    def __invert__(self) -> Expression:
        return Not(cast("Expression", self))

    def __bool__(self) -> bool:
        raise TypeError("a filter has no truth value without an event; combine filters with & | ~, not with and/or/not")


class Constraint(_Combinable, frozen=True, gc=False):
    """`attribute operator constants`, checked: the constants fit the operator and each other."""

    attribute: str
    operator: Operator
    constants: tuple[Value, ...] = ()

    depth: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_name(self.attribute)
        where = f"{self.attribute} {self.operator.value}"
        constants = tuple(checked_constant(constant, where) for constant in self.constants)
        force_setattr(self, "constants", constants)
        _check_count(self.operator, constants, where)
        families = {family_of(constant) for constant in constants}
        if len(families) > 1:
            names = " and ".join(sorted(family.value for family in families))
            raise FilterTypeError(f"{where}: constants of one kind are needed, these mix {names}: {shown(constants)}")
        if self.operator in PATTERNS and families != {Family.STRING}:
            raise FilterTypeError(f"{where}: {shown(constants[0])} is not a string")
        if self.operator in PATTERNS and len(str(constants[0])) > MAX_PATTERN_LENGTH:
            raise FilterTooLargeError(
                f"{where}: {shown(constants[0])} is too long; a pattern has at most {MAX_PATTERN_LENGTH:,} characters"
            )
        if self.operator in ORDERINGS and families == {Family.BOOL}:
            raise FilterTypeError(f"{where}: true and false have no order; use = or !=")
        if self.operator is Operator.LIKE:
            Pattern.like(str(constants[0]))

    def __eq__(self, other: object) -> bool:
        """Whether both say the same. Python takes 1 for True, so the family of the constants is compared too."""
        if not isinstance(other, Constraint):
            return NotImplemented
        mine = (self.attribute, self.operator, self.family, self.constants)
        return mine == (other.attribute, other.operator, other.family, other.constants)

    def __hash__(self) -> int:
        return hash((self.attribute, self.operator, self.family, self.constants))

    @property
    def family(self) -> Family | None:
        """The family of the constants; None for `exists`, which has none."""
        return family_of(self.constants[0]) if self.constants else None

    @property
    def pattern(self) -> Pattern:
        """The pattern of a `like`, `prefix`, `suffix` or `contains`."""
        text = str(self.constants[0])
        match self.operator:
            case Operator.PREFIX:
                return Pattern.prefix(text)
            case Operator.SUFFIX:
                return Pattern.suffix(text)
            case Operator.CONTAINS:
                return Pattern.contains(text)
        return Pattern.like(text)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_LENGTH:
        raise FilterTypeError(f"an attribute name is 1 to {MAX_NAME_LENGTH:,} characters, not {shown(name)}")
    checked_constant(name, "attribute name")


def _check_count(operator: Operator, constants: tuple[Value, ...], where: str) -> None:
    if operator in OF_SEVERAL:
        if not constants:
            raise FilterTypeError(f"{where}: the list is empty; write at least one constant")
        return
    wanted = {Operator.BETWEEN: 2, Operator.EXISTS: 0}.get(operator, 1)
    if len(constants) != wanted:
        raise FilterTypeError(f"{where}: {wanted} constant(s) are needed, not {len(constants)}")


class Constant(_Combinable, frozen=True, gc=False):
    """`true` or `false`: a filter that matches every event, or none."""

    value: bool

    depth: ClassVar[int] = 1


class Not(_Combinable, frozen=True, gc=False):
    """True where its part is false; unknown where its part is unknown."""

    part: Expression
    depth: int = 0
    """Worked out from the parts."""

    def __post_init__(self) -> None:
        force_setattr(self, "depth", _depth_above((self.part,)))


class _Combination(_Combinable, frozen=True, gc=False):
    parts: tuple[Expression, ...]
    depth: int = 0
    """Worked out from the parts."""

    def __post_init__(self) -> None:
        given: object = self.parts
        if not isinstance(given, tuple | list):
            raise FilterTypeError(f"{shown(given)} is not a tuple of filter expressions")
        force_setattr(self, "parts", tuple(given))
        force_setattr(self, "depth", _depth_above(self.parts))


class And(_Combination, frozen=True, gc=False):
    """False where a part is false, else unknown where a part is unknown, else true."""


class Or(_Combination, frozen=True, gc=False):
    """True where a part is true, else unknown where a part is unknown, else false."""


Expression: TypeAlias = Constraint | Constant | Not | And | Or


def leaves(expression: Expression) -> list[Constraint | Constant]:
    """Return the constraints and constants of a tree, as they are read from left to right."""
    found: list[Constraint | Constant] = []
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Not):
            waiting.append(part.part)
        elif isinstance(part, And | Or):
            waiting += reversed(part.parts)
        else:
            found.append(part)
    return found


def _depth_above(parts: tuple[Expression, ...]) -> int:
    for part in parts:
        check_expression(part)
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        raise FilterTooLargeError(f"the filter nests and/or/not more than {MAX_DEPTH} deep")
    return depth


def check_expression(value: object) -> None:
    """Raise unless `value` is an expression."""
    if not isinstance(value, Constraint | Constant | Not | And | Or):
        raise not_an_expression(value)


def not_an_expression(value: object) -> FilterTypeError:
    """Return the error for what is no expression; it says what to do with the things that are taken for one."""
    hint = ""
    if isinstance(value, str):
        hint = "; text is read by parse_filter"
    elif isinstance(value, Attribute):
        hint = f"; compare it with a constant (& and | bind before comparisons), such as ({value!r} == True)"
    return FilterTypeError(f"{shown(value)} is not a filter expression{hint}")


def all_of(*parts: Expression) -> Expression:
    """Return the `and` of some expressions; nested `and`s become one. The `and` of nothing is `true`."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
    return flat[0] if len(flat) == 1 else And(flat) if flat else Constant(True)


def any_of(*parts: Expression) -> Expression:
    """Return the `or` of some expressions; nested `or`s become one. The `or` of nothing is `false`."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
    return flat[0] if len(flat) == 1 else Or(flat) if flat else Constant(False)


class Attribute:
    """The Python spelling of constraints on one attribute; see `attr`."""

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]  # == builds a filter here, so hashing by it would be meaningless

    def __init__(self, name: str) -> None:
        _check_name(name)
        self.name = name

    def __repr__(self) -> str:
        return f"attr({self.name!r})"

    def __invert__(self) -> NoReturn:
        raise not_an_expression(self)

    def __and__(self, other: object) -> NoReturn:
        raise not_an_expression(self)

    __rand__ = __or__ = __ror__ = __and__

    def __eq__(self, constant: object) -> Constraint:  # type: ignore[override]
        return self._compared(Operator.EQ, constant)

    def __ne__(self, constant: object) -> Constraint:  # type: ignore[override]
        return self._compared(Operator.NE, constant)

    def __lt__(self, constant: Value) -> Constraint:
        return self._compared(Operator.LT, constant)

    def __le__(self, constant: Value) -> Constraint:
        return self._compared(Operator.LE, constant)

    def __gt__(self, constant: Value) -> Constraint:
        return self._compared(Operator.GT, constant)

    def __ge__(self, constant: Value) -> Constraint:
        return self._compared(Operator.GE, constant)

    def between(self, low: Value, high: Value) -> Constraint:
        """Hold for low <= value <= high."""
        return Constraint(self.name, Operator.BETWEEN, (low, high))

    def is_in(self, *constants: Value | Collection[Value]) -> Constraint:
        """Hold for any of the given values: `is_in("Porto", "Braga")`, or `is_in(cities)` of a list, tuple or set."""
        return self._compared_with_several(Operator.IN, constants)

    def like(self, pattern: str) -> Constraint:
        """Hold for strings of a pattern: % stands for any text, _ for any one character."""
        return self._compared(Operator.LIKE, pattern)

    def prefix(self, text: str) -> Constraint:
        """Hold for strings that start with `text`."""
        return self._compared(Operator.PREFIX, text)

    def suffix(self, text: str) -> Constraint:
        """Hold for strings that end with `text`."""
        return self._compared(Operator.SUFFIX, text)

    def contains(self, text: str) -> Constraint:
        """Hold for strings that `text` occurs in."""
        return self._compared(Operator.CONTAINS, text)

    def exists(self) -> Constraint:
        """Hold when the event has the attribute."""
        return Constraint(self.name, Operator.EXISTS)

    def has(self, element: Value) -> Constraint:
        """Hold for lists with this element; a scalar is a list of one."""
        return self._compared(Operator.HAS, element)

    def has_any(self, *elements: Value | Collection[Value]) -> Constraint:
        """Hold for lists with one of the given elements at least."""
        return self._compared_with_several(Operator.HAS_ANY, elements)

    def has_all(self, *elements: Value | Collection[Value]) -> Constraint:
        """Hold for lists with all of the given elements."""
        return self._compared_with_several(Operator.HAS_ALL, elements)

    def has_none(self, *elements: Value | Collection[Value]) -> Constraint:
        """Hold for lists, if there is one, without any of the given elements."""
        return self._compared_with_several(Operator.HAS_NONE, elements)

    def _compared_with_several(
        self, operator: Operator, constants: tuple[Value | Collection[Value], ...]
    ) -> Constraint:
        given: tuple[Any, ...] = constants
        if len(given) == 1 and isinstance(given[0], list | tuple):
            given = tuple(given[0])
        elif len(given) == 1 and isinstance(given[0], set | frozenset):
            given = tuple(sorted(given[0], key=repr))  # a set has another order in each process
        return Constraint(self.name, operator, given)

    def _compared(self, operator: Operator, constant: object) -> Constraint:
        return Constraint(self.name, operator, (cast(Value, constant),))


def attr(name: str) -> Attribute:
    """Return an attribute to compare: `attr("year") > 1990`, `attr("city").is_in("Porto", "Braga")`."""
    return Attribute(name)
