"""The oracle: three-valued evaluation of filters as they are written, one subscription after the other.

It is slow and obviously right: no normal form, no index, no shortcut. Every engine is tested to agree with it.
Truth is SQL's: True, False, or None for unknown; only True matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rankcast.model.events import Event
from rankcast.model.expressions import OF_ELEMENTS, PATTERNS, And, Constant, Constraint, Expression, Not, Operator
from rankcast.model.subscriptions import Subscriber, Subscription, SubscriptionKey
from rankcast.model.values import AttributeValue, ListValue, Value, elements_of, family_of


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the oracle says of an expression and of every part of it.

    `value` is what the event has where a constraint looks, None when the attribute is missing.
    """

    expression: Expression
    truth: bool | None
    value: AttributeValue | None = None
    parts: tuple[Evaluation, ...] = ()


def judge(expression: Expression, attributes: Mapping[str, AttributeValue]) -> Evaluation:
    """Return the verdict on an expression for an event's attributes."""
    if isinstance(expression, Constraint):
        value = attributes.get(expression.attribute)
        return Evaluation(expression, holds(expression, value), value)
    if isinstance(expression, Constant):
        return Evaluation(expression, expression.value)
    if isinstance(expression, Not):
        part = judge(expression.part, attributes)
        return Evaluation(expression, negation(part.truth), parts=(part,))
    parts = tuple(judge(part, attributes) for part in expression.parts)
    combine = conjunction if isinstance(expression, And) else disjunction
    return Evaluation(expression, combine(part.truth for part in parts), parts=parts)


def evaluate(expression: Expression, attributes: Mapping[str, AttributeValue]) -> bool | None:
    """Return the truth of an expression for an event's attributes.

    >>> from rankcast.model.expressions import attr
    >>> print(evaluate(~(attr("rent") > 900), {"city": "Porto"}))
    None
    """
    return judge(expression, attributes).truth


def negation(truth: bool | None) -> bool | None:
    """Return `not` in three-valued logic."""
    return None if truth is None else not truth


def conjunction(truths: Iterable[bool | None]) -> bool | None:
    """Return `and` in three-valued logic: false if any is, else unknown if any is."""
    seen = set(truths)
    return False if False in seen else None if None in seen else True


def disjunction(truths: Iterable[bool | None]) -> bool | None:
    """Return `or` in three-valued logic: true if any is, else unknown if any is."""
    seen = set(truths)
    return True if True in seen else None if None in seen else False


def holds(constraint: Constraint, value: AttributeValue | None) -> bool | None:
    """Return the truth of one constraint; None as `value` stands for a missing attribute."""
    if constraint.operator is Operator.EXISTS:
        return value is not None
    if value is not None and constraint.operator in OF_ELEMENTS:
        return _has(elements_of(value), constraint)
    if value is None or isinstance(value, tuple) or family_of(value) is not constraint.family:
        return None
    if constraint.operator in PATTERNS:
        return constraint.pattern.matches(str(value))
    return _compare(value, constraint)


def _has(elements: ListValue, constraint: Constraint) -> bool | None:
    if elements and family_of(elements[0]) is not constraint.family:
        return None
    found = [any(element == constant for element in elements) for constant in constraint.constants]
    if constraint.operator is Operator.HAS_ALL:
        return all(found)
    return any(found) != (constraint.operator is Operator.HAS_NONE)


def _compare(value: Value, constraint: Constraint) -> bool:
    first = constraint.constants[0]
    match constraint.operator:
        case Operator.EQ:
            return value == first
        case Operator.NE:
            return value != first
        case Operator.LT:
            return value < first  # type: ignore[operator]  # one family, as `holds` has made sure
        case Operator.LE:
            return value <= first  # type: ignore[operator]
        case Operator.GT:
            return value > first  # type: ignore[operator]
        case Operator.GE:
            return value >= first  # type: ignore[operator]
        case Operator.BETWEEN:
            return first <= value <= constraint.constants[1]  # type: ignore[operator]
    return any(value == constant for constant in constraint.constants)


def matches(subscription: Subscription, event: Event) -> bool:
    """Whether an event satisfies a subscription that is active at the event's time."""
    return subscription.is_active_at(event.time) and evaluate(subscription.filter.expression, event.attributes) is True


def matching_subscriptions(subscribers: Iterable[Subscriber], event: Event) -> list[SubscriptionKey]:
    """Return every subscription that an event satisfies, in the order given."""
    return [
        SubscriptionKey(subscriber.id, subscription.id)
        for subscriber in subscribers
        for subscription in subscriber.subscriptions
        if matches(subscription, event)
    ]
