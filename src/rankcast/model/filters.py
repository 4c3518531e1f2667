"""Filters in normal form: a bounded disjunction of conjunctions of value sets.

A conjunction maps attributes to value sets and matches when every set accepts what the event has there. Lowering
follows SQL's three-valued logic exactly: of each constraint we know where it is true and where it is false (unknown
is neither), negation swaps the two, and only "true" matches. Two filters that normalise alike compare equal.

The form is reached bottom-up. After every `or`, conjunctions that differ in one attribute only are merged into one
with the union of the two sets, and conjunctions that another one contains are dropped; so `a = 1 or a = 2` is one
conjunction and does not multiply. What is left may still grow exponentially in adversarial filters, hence the bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from itertools import chain
from operator import and_, xor
from typing import TypeAlias, TypeVar, cast

from msgspec import Struct

from rankcast.model.errors import FilterTooLargeError
from rankcast.model.expressions import (
    OF_ELEMENTS,
    PATTERNS,
    And,
    Constant,
    Constraint,
    Expression,
    Not,
    Operator,
    check_expression,
    leaves,
)
from rankcast.model.schema import Schema
from rankcast.model.values import AttributeValue, Family
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.sets import DOMAIN_OF_FAMILY, EVERYTHING, MISSING, NOTHING, PRESENT, ValueSet

MAX_CONJUNCTIONS = 256
"""Conjunctions in one filter. Beyond that a subscription is better written as several."""

MAX_CONSTRAINTS = 10_000
"""Constraints in one filter as it is written; an `in` list counts as one, however long."""

MAX_PRODUCT = 16 * MAX_CONJUNCTIONS
"""Pairs tried when two disjunctions are multiplied out, before merging: bounds the time, not only the result."""

MAX_VALUE_SETS = 100_000
"""Value sets over all conjunctions of one filter: bounds filters of many attributes and many alternatives."""

MAX_STEPS = 15_000_000
"""Steps that lowering one filter may take, about a second: few values, few alternatives or few patterns."""

STEPS_PER_BYTE = 100
"""Further steps for each byte of a file or message, of which all filters share those of one."""

_PER_SET = 100
"""Steps that it takes to put a value set in its place, whatever is in it."""

Part = TypeVar("Part")


class Work:
    """The steps that are left, for lowering a filter or for telling how two are related."""

    __slots__ = ("left", "shared")

    def __init__(self, steps: int, shared: Work | None = None) -> None:
        self.left = steps
        self.shared = shared

    def spend(self, steps: int) -> None:
        """Take so many steps; raise FilterTooLargeError where too few are left."""
        self.left -= steps
        if self.shared is not None:
            self.shared.left -= steps
            if self.shared.left < 0:
                raise FilterTooLargeError(
                    "the filters of this file or message together take too many steps to be written as disjunctions of "
                    f"conjunctions: more than {MAX_STEPS:,}, and {STEPS_PER_BYTE} for each of its bytes; split it, or "
                    "write fewer alternatives"
                )
        if self.left < 0:
            raise FilterTooLargeError(
                f"the filter takes more than {MAX_STEPS:,} steps to be written as a disjunction of conjunctions: it "
                "has many alternatives and many values or patterns; split it into several subscriptions"
            )

    def both(self, one: ValueSet, other: ValueSet) -> ValueSet:
        """Return the intersection of two value sets."""
        self.spend(one.steps_to_combine(other))
        return one & other

    def united(self, one: ValueSet, other: ValueSet) -> ValueSet | None:
        """Return the union of two value sets, or None when one set cannot express that."""
        self.spend(one.steps_to_unite(other))
        return one.union(other)


_SHARED: ContextVar[Work | None] = ContextVar("steps that filters share", default=None)


@contextmanager
def shared_steps(size: int) -> Iterator[None]:
    """Let all filters that are lowered in the block, from a text of so many bytes, share their steps."""
    token = _SHARED.set(Work(MAX_STEPS + STEPS_PER_BYTE * size))
    try:
        yield
    finally:
        _SHARED.reset(token)


class Conjunction(Struct, frozen=True, gc=False):
    """Value sets by attribute, sorted by name; no set is empty or EVERYTHING."""

    items: tuple[tuple[str, ValueSet], ...] = ()

    def __iter__(self) -> Iterator[tuple[str, ValueSet]]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def get(self, attribute: str) -> ValueSet:
        """Return what an attribute may be."""
        return next((values for name, values in self.items if name == attribute), EVERYTHING)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The constrained attributes in order."""
        return tuple(name for name, _ in self.items)

    @property
    def has_patterns(self) -> bool:
        """Whether string patterns are part of it."""
        return any(values.has_patterns for _, values in self.items)

    def accepts(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether every value set accepts what the attributes have there."""
        return all(values.accepts(attributes.get(name)) for name, values in self.items)

    def __and__(self, other: Conjunction) -> Conjunction | None:
        return self.intersection(other, and_)

    def intersection(self, other: Conjunction, combine: Callable[[ValueSet, ValueSet], ValueSet]) -> Conjunction | None:
        """Return the conjunction of both, or None when no event can satisfy it."""
        merged = dict(self.items)
        for name, values in other.items:
            both = combine(merged[name], values) if name in merged else values
            if not both:
                return None
            merged[name] = both
        return Conjunction(tuple(sorted(merged.items(), key=_name)))

    def without(self, index: int) -> tuple[tuple[str, ValueSet], ...]:
        """Return the items but one."""
        return self.items[:index] + self.items[index + 1 :]

    def covers(self, other: Conjunction, work: Work | None = None) -> bool | None:
        """Whether every event of `other` is one of this: exact without string patterns, else None if undecided."""
        theirs = dict(other.items)
        if any(name not in theirs for name, _ in self.items):
            return False  # no set in a conjunction is EVERYTHING, which is what the other one accepts there
        verdict: bool | None = True
        for name, values in self.items:
            if work is not None:
                work.spend(values.steps_to_decide(theirs[name]))
            covered = values.covers(theirs[name])
            if covered is False:
                return False
            verdict = verdict and covered
        return verdict

    def surely_covers(self, other: Conjunction, work: Work | None = None) -> bool:
        """Whether it is certain that every event of `other` is one of this: cheaper than `covers`."""
        if len(self.items) > len(other.items):
            return False
        theirs = dict(other.items)
        if any(name not in theirs for name, _ in self.items):
            return False
        pairs = [(values, theirs[name]) for name, values in self.items]
        if len(pairs) > 1:
            pairs.sort(key=_size_of_first)  # what is decided soon first
        for values, their in pairs:
            if work is not None:
                work.spend(values.steps_to_compare(their))
            if not values.surely_covers(their):
                return False
        return True

    @property
    def sort_key(self) -> tuple[object, ...]:
        """A key that puts conjunctions in one order, whatever order they were found in."""
        return tuple((name, values.sort_key) for name, values in self.items)


class Filter(Struct, frozen=True, gc=False):
    """What a subscription asks for: `expression` as it was written, `conjunctions` in normal form.

    Equality and hash are those of the normal form. `schema` is what it was lowered under, so that it is done once.

    >>> from rankcast.model.expressions import attr
    >>> Filter.of(~(attr("x") > 1)) == Filter.of(attr("x") <= 1)
    True
    """

    expression: Expression
    conjunctions: tuple[Conjunction, ...]
    schema: Schema | None = None

    @staticmethod
    def of(expression: Expression, schema: Schema | None = None) -> Filter:
        """Lower an expression; with a schema, check it and use what is known of attributes.

        Raises FilterTooLargeError past MAX_CONSTRAINTS, when the normal form exceeds MAX_CONJUNCTIONS, or when it takes
        more than MAX_STEPS to get there.
        """
        check_expression(expression)
        _check_size(expression)
        work = Work(MAX_STEPS, _SHARED.get())
        conjunctions = _lowered(expression, schema, work, negated=False)
        return Filter(expression, conjunctions if schema is None else _declared(conjunctions, schema, work), schema)

    def under(self, schema: Schema | None) -> Filter:
        """Return the same filter with its normal form under another schema."""
        if schema is not None and schema is self.schema:
            return self
        return Filter.of(self.expression, schema)

    @property
    def is_satisfiable(self) -> bool:
        """False when it is certain that no event can match."""
        return bool(self.conjunctions)

    @property
    def accepts_everything(self) -> bool:
        """Whether every event matches, as with `true`."""
        return self.conjunctions == (_TRUE,)

    def accepts(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether some conjunction accepts an event's attributes."""
        return any(conjunction.accepts(attributes) for conjunction in self.conjunctions)

    def __eq__(self, other: object) -> bool:
        return self.conjunctions == other.conjunctions if isinstance(other, Filter) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.conjunctions)


_TRUE = Conjunction()
Conjunctions: TypeAlias = tuple[Conjunction, ...]


def _check_size(expression: Expression) -> None:
    count = len(leaves(expression))
    if count > MAX_CONSTRAINTS:
        raise FilterTooLargeError(
            f"the filter has {count:,} constraints; at most {MAX_CONSTRAINTS:,} are allowed "
            "(a list of values is better written with `in`)"
        )


def _lowered(expression: Expression, schema: Schema | None, work: Work, *, negated: bool) -> Conjunctions:
    """Return where the expression is true or, negated, where it is false."""
    if isinstance(expression, Constraint):
        return _lowered_constraint(expression, schema, work, negated=negated)
    if isinstance(expression, Constant):
        return (_TRUE,) if expression.value != negated else ()
    if isinstance(expression, Not):
        return _lowered(expression.part, schema, work, negated=not negated)
    parts = [_lowered(part, schema, work, negated=negated) for part in expression.parts]
    if isinstance(expression, And) != negated:
        return _all_of(parts, work)
    return _any_of((conjunction for part in parts for conjunction in part), work)


def _declared(conjunctions: Conjunctions, schema: Schema, work: Work) -> Conjunctions:
    """Simplify by the schema what merging has put together, until nothing changes."""
    while True:
        items = ([(name, schema.simplified(name, values)) for name, values in found] for found in conjunctions)
        satisfiable = (
            Conjunction(tuple(item for item in found if item[1] != EVERYTHING))
            for found in items
            if all(values for _, values in found)
        )
        simplified = _any_of(satisfiable, work)
        if simplified == conjunctions:
            return simplified
        conjunctions = simplified


def _lowered_constraint(constraint: Constraint, schema: Schema | None, work: Work, *, negated: bool) -> Conjunctions:
    if constraint.operator is Operator.HAS_ALL and negated:
        lacking = (Constraint(constraint.attribute, Operator.HAS_NONE, (value,)) for value in constraint.constants)
        found = (_lowered_constraint(part, schema, work, negated=False) for part in lacking)
        return _any_of(chain.from_iterable(found), work)
    domain = Domain.REAL
    if schema is not None:
        schema.check(constraint)
        domain = schema.number_domain(constraint.attribute)
    values = value_set(constraint, domain, negated=negated)
    if schema is not None:
        values = schema.simplified(constraint.attribute, values)
    if not values:
        return ()
    return (_TRUE,) if values == EVERYTHING else (Conjunction(((constraint.attribute, values),)),)


def value_set(constraint: Constraint, numbers: Domain = Domain.REAL, *, negated: bool = False) -> ValueSet:
    """Return where a constraint is true or, negated, where it is false; `has all` of several is negated one by one."""
    family = constraint.family
    if family is None:
        return MISSING if negated else PRESENT
    if constraint.operator in PATTERNS:
        return ValueSet.of_pattern(constraint.pattern, negated=negated)
    domain = numbers if family is Family.NUMBER else DOMAIN_OF_FAMILY[family]
    if constraint.operator in OF_ELEMENTS:
        if negated != (constraint.operator is Operator.HAS_NONE):
            return ValueSet.lacking(family, constraint.constants, domain)
        each = [(constant,) for constant in constraint.constants]
        choices = each if constraint.operator is Operator.HAS_ALL else [constraint.constants]
        return ValueSet.having(family, choices, domain)
    if constraint.operator is Operator.NE:
        negated = not negated
    if constraint.operator in (Operator.EQ, Operator.NE, Operator.IN):
        found = ValueSet.of_points(family, constraint.constants, domain)
    else:
        found = ValueSet.of_interval(_interval(constraint, domain))
    return _rest_of_family(found, family) if negated else found


_UPPER_BOUNDS = {Operator.LT: False, Operator.LE: True}
_LOWER_BOUNDS = {Operator.GT: False, Operator.GE: True}
"""Operators of one bound, and whether it belongs to what they accept."""


def _interval(constraint: Constraint, domain: Domain) -> IntervalSet:
    operator, first, last = constraint.operator, constraint.constants[0], constraint.constants[-1]
    if operator in _UPPER_BOUNDS:
        return IntervalSet.between(domain, None, first, high_closed=_UPPER_BOUNDS[operator])
    if operator in _LOWER_BOUNDS:
        return IntervalSet.between(domain, first, None, low_closed=_LOWER_BOUNDS[operator])
    return IntervalSet.between(domain, first, last)


def _rest_of_family(values: ValueSet, family: Family) -> ValueSet:
    """Return the other values of a family; without patterns the complement is one set, or none when it was all."""
    outside = next(iter(values.complement()), NOTHING)
    return outside & ValueSet.of_family(family)


def _all_of(parts: list[Conjunctions], work: Work) -> Conjunctions:
    """Multiply out: single conjunctions at once, then disjunctions, smallest first, so that the bound is met early.

    What no disjunction speaks of takes no part in that, and is added to every conjunction at the end.
    """
    if not all(parts):
        return ()
    common = _conjoined((part[0] for part in parts if len(part) == 1), work)
    disjunctions = sorted((part for part in parts if len(part) > 1), key=len)
    if not common or not disjunctions:
        return common
    shared = {name for part in disjunctions for conjunction in part for name in conjunction.attributes}
    apart = tuple(item for item in common[0] if item[0] not in shared)
    result: Conjunctions = (Conjunction(tuple(item for item in common[0] if item[0] in shared)),)
    for part in disjunctions:
        result = _product(result, part, work)
    return _extended(result, apart, work) if apart else result


def _extended(conjunctions: Conjunctions, items: tuple[tuple[str, ValueSet], ...], work: Work) -> Conjunctions:
    """Add items on other attributes to every conjunction: nothing to merge or to drop arises from that."""
    count = sum(len(conjunction) + len(items) for conjunction in conjunctions)
    _check_value_sets(count)
    work.spend(_PER_SET * count)
    wider = (Conjunction(tuple(sorted((*conjunction, *items), key=_name))) for conjunction in conjunctions)
    return tuple(sorted(wider, key=lambda conjunction: conjunction.sort_key))


def _conjoined(conjunctions: Iterable[Conjunction], work: Work) -> Conjunctions:
    """Return one conjunction, or none when they contradict each other."""
    by_name: dict[str, list[ValueSet]] = defaultdict(list)
    for conjunction in conjunctions:
        for name, values in conjunction:
            by_name[name].append(values)
    items: list[tuple[str, ValueSet]] = []
    for name in sorted(by_name):
        both = _intersection(by_name[name], work)
        if not both:
            return ()
        items.append((name, both))
    return (Conjunction(tuple(items)),)


def _intersection(sets: list[ValueSet], work: Work) -> ValueSet:
    if len(sets) == 1:
        return sets[0]
    plain = [values for values in sets if not values.strings.has_patterns]
    patterned = [values for values in sets if values.strings.has_patterns]
    return reduce(work.both, patterned, _balanced(plain, work.both, EVERYTHING))


def _product(left: Conjunctions, right: Conjunctions, work: Work) -> Conjunctions:
    pairs = len(left) * len(right)
    if pairs > MAX_PRODUCT:
        raise _too_many()
    _check_value_sets(pairs * max(map(len, left), default=0) + pairs * max(map(len, right), default=0))
    work.spend(_PER_SET * pairs)
    return _any_of(
        (both for mine in left for theirs in right if (both := mine.intersection(theirs, work.both)) is not None), work
    )


def _check_value_sets(count: int) -> None:
    if count > MAX_VALUE_SETS:
        raise FilterTooLargeError(
            f"the filter has about {count:,} conditions once it is written as a disjunction of conjunctions; "
            f"at most {MAX_VALUE_SETS:,} are allowed, split it into several subscriptions"
        )


def _balanced(parts: list[Part], combine: Callable[[Part, Part], Part], neutral: Part) -> Part:
    """Combine in a balanced tree: n sets of size 1 cost O(n log n), one after the other they would cost O(n^2)."""
    while len(parts) > 1:
        pairs = [combine(parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0] if parts else neutral


def _any_of(conjunctions: Iterable[Conjunction], work: Work) -> Conjunctions:
    """Return the canonical disjunction: nothing left to merge, nothing contained in another, sorted."""
    current = list(conjunctions)
    if len(current) < 2:
        return tuple(current)
    current = list(dict.fromkeys(current))
    while len(current) > 1:
        work.spend(sum(_PER_SET + values.size for conjunction in current for _, values in conjunction.items))
        current.sort(key=lambda conjunction: conjunction.sort_key)
        merged = _merged(current, work)
        if len(merged) == len(current):
            break
        current = merged
    if len(current) > MAX_CONJUNCTIONS:
        raise _too_many()
    return tuple(current) if len(current) < 2 else _absorbed(current, work)


def _too_many() -> FilterTooLargeError:
    return FilterTooLargeError(
        f"the filter has more than {MAX_CONJUNCTIONS} alternatives once it is written as a disjunction of "
        "conjunctions; split it into several subscriptions"
    )


def _merged(conjunctions: list[Conjunction], work: Work) -> list[Conjunction]:
    """Unite, in one round, conjunctions that are alike but for the value set of one attribute."""
    alike: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for at, conjunction in enumerate(conjunctions):
        hashes = [hash(item) for item in conjunction.items]
        total = reduce(xor, hashes, 0)
        for index, (name, _) in enumerate(conjunction.items):
            alike[name, total ^ hashes[index]].append((at, index))
    merged: list[Conjunction] = []
    done: set[int] = set()
    for (name, _), members in alike.items():
        waiting = [(at, index) for at, index in members if at not in done]
        if len(waiting) < 2:
            continue
        others = conjunctions[waiting[0][0]].without(waiting[0][1])
        group = [(at, index) for at, index in waiting if conjunctions[at].without(index) == others]
        united = _united([conjunctions[at].items[index][1] for at, index in group], work)
        if len(united) < len(group):
            done.update(at for at, _ in group)
            merged += (
                Conjunction(others if values == EVERYTHING else tuple(sorted((*others, (name, values)), key=_name)))
                for values in united
            )
    merged += (conjunction for at, conjunction in enumerate(conjunctions) if at not in done)
    return list(dict.fromkeys(merged))


def _name(item: tuple[str, ValueSet]) -> str:
    return item[0]


def _size_of_first(pair: tuple[ValueSet, ValueSet]) -> int:
    return pair[0].size


def _united(value_sets: list[ValueSet], work: Work) -> list[ValueSet]:
    """Return the fewest sets found that hold the same; sets with different string patterns stay apart."""
    plain = [values for values in value_sets if not values.has_patterns]
    choices: dict[Family, list[ValueSet]] = defaultdict(list)
    others: list[ValueSet] = []
    for values in value_sets:
        family = values.lists.choice
        if family is not None:
            choices[family].append(values)
        elif values.has_patterns:
            others.append(values)
    parts = [plain] if plain else []
    united = [
        _balanced(part, lambda one, other: cast(ValueSet, work.united(one, other)), NOTHING)
        for part in (*parts, *choices.values())
    ]
    for values in others:
        growing, at = values, 0
        while at < len(united):
            both = work.united(united[at], growing)
            if both is None:
                at += 1
            else:  # what has grown may now unite with those that were passed
                del united[at]
                growing, at = both, 0
        united.append(growing)
        if len(united) > MAX_CONJUNCTIONS:
            raise _too_many()
    return united


def _absorbed(conjunctions: list[Conjunction], work: Work) -> Conjunctions:
    """Drop every conjunction that another one contains; only one with a subset of its attributes can."""
    kept: list[tuple[frozenset[str], Conjunction]] = []
    for conjunction in sorted(conjunctions, key=len):
        names = frozenset(conjunction.attributes)
        work.spend(len(kept))
        if not any(theirs <= names and other.surely_covers(conjunction, work) for theirs, other in kept):
            kept = [entry for entry in kept if not (names <= entry[0] and conjunction.surely_covers(entry[1], work))]
            kept.append((names, conjunction))
    return tuple(sorted((conjunction for _, conjunction in kept), key=lambda conjunction: conjunction.sort_key))
