"""Filters and schemas."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from rankcast.model.expressions import (
    ORDERINGS,
    PATTERNS,
    Constant,
    Constraint,
    Expression,
    Not,
    Operator,
    all_of,
    any_of,
)
from rankcast.model.filters import Filter
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.values import FAMILY_OF_TYPE, Family, Value, ValueType
from rankcast.testing.strategies.pools import ATTRIBUTES, alike, attribute_names, constants, mostly

_LIKE_PIECES = ("a", "b", "c", "%", "_", "%", r"\%", r"\_", r"\\", "ab", "\0", "😀")


def like_texts() -> SearchStrategy[str]:
    """Draw the text of a `like`: mostly short, of few characters, with both wildcards and escapes."""
    return st.lists(st.sampled_from(_LIKE_PIECES), max_size=6).map("".join)


@st.composite
def constraints(
    draw: DrawFn, names: SearchStrategy[str] | None = None, *, schema: Schema | None = None, patterns: bool = True
) -> Constraint:
    """Draw one constraint with any operator; with a schema, one that fits it; without `patterns`, no `like` and kin."""
    if names is None:
        names = attribute_names() if schema is None else _names_of(schema)
    name = draw(names)
    kind = draw(_types_for(name)) if schema is None else schema.type_of(name)
    operator = draw(_operators(FAMILY_OF_TYPE[kind], patterns=patterns))
    return Constraint(name, operator, draw(_constants_for(operator, alike(kind))))


def _types_for(name: str) -> SearchStrategy[ValueType]:
    usual = ATTRIBUTES.get(name)
    return st.sampled_from(ValueType) if usual is None else mostly(st.just(usual), st.sampled_from(ValueType))


def _names_of(schema: Schema) -> SearchStrategy[str]:
    envelope = st.sampled_from(tuple(ENVELOPE_TYPES))
    return mostly(st.sampled_from(tuple(schema.attributes)), envelope) if schema.attributes else envelope


@cache
def _operators(family: Family, *, patterns: bool) -> SearchStrategy[Operator]:
    unfit: set[Operator] = set()
    if family is Family.BOOL:
        unfit |= ORDERINGS
    if family is not Family.STRING or not patterns:
        unfit |= PATTERNS
    return st.sampled_from([operator for operator in Operator if operator not in unfit])


@cache
def _constants_for(operator: Operator, types: tuple[ValueType, ...]) -> SearchStrategy[tuple[Value, ...]]:
    if operator is Operator.EXISTS:
        return st.just(())
    if operator is Operator.LIKE:
        return like_texts().map(lambda text: (text,))
    one = constants(*types)
    if operator is Operator.IN:
        return st.lists(one, min_size=1, max_size=4).map(tuple)
    return st.tuples(one, one) if operator is Operator.BETWEEN else st.tuples(one)


def expressions(
    *, max_leaves: int = 8, leaves: SearchStrategy[Constraint] | None = None, schema: Schema | None = None
) -> SearchStrategy[Expression]:
    """Draw a filter as it is written: constraints and now and then `true` or `false`, under `and`, `or` and `not`.

    Trees have the shape that `&`, `|` and the grammar give them: an `and` directly under an `and` is one `and`.
    """
    if leaves is None and schema is None:
        return _expressions(max_leaves)
    return _trees(constraints(schema=schema) if leaves is None else leaves, max_leaves)


@cache  # a recursive strategy is costly to make, and subscribers need one for each subscription
def _expressions(max_leaves: int) -> SearchStrategy[Expression]:
    return _trees(constraints(), max_leaves)


def _trees(leaves: SearchStrategy[Constraint], max_leaves: int) -> SearchStrategy[Expression]:
    plain: SearchStrategy[Expression] = mostly(leaves, st.builds(Constant, st.booleans()), share=9)
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: all_of(*parts)),
            st.lists(inner, min_size=2, max_size=4).map(lambda parts: any_of(*parts)),
            st.builds(Not, inner),
        ),
        max_leaves=max_leaves,
    )


def filters(schema: Schema | None = None, *, max_leaves: int = 8) -> SearchStrategy[Filter]:
    """Draw a filter; with a schema, one that fits it and is in normal form under it."""
    if schema is None:
        return _filters(max_leaves)
    return expressions(max_leaves=max_leaves, schema=schema).map(lambda expression: Filter.of(expression, schema))


@cache
def _filters(max_leaves: int) -> SearchStrategy[Filter]:
    return _expressions(max_leaves).map(Filter.of)


@st.composite
def schemas(draw: DrawFn) -> Schema:
    """Draw a schema: some names, mostly of the pool and with their usual types, some of them required."""
    names = draw(st.lists(attribute_names(), max_size=8, unique=True))
    declared = {name: draw(_types_for(name)) for name in names}
    required = draw(st.sets(st.sampled_from((*names, "subject", "time")), max_size=3))
    return Schema(declared, frozenset(required))
