"""Why does an event match a subscription, or why not?

The verdict on every constraint is the oracle's own (`rankcast.matching.naive.judge`), with the value that was seen. For
an event that does not match, `changes` lists what would have made it match: of the ways to satisfy the filter, the
one with the fewest attributes to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from rankcast.language.literals import format_value
from rankcast.language.printer import format_expression, format_value_set
from rankcast.matching.naive import Evaluation, judge, negation
from rankcast.model.events import Event
from rankcast.model.expressions import OF_ELEMENTS, Constraint, Not, Operator
from rankcast.model.subscriptions import Subscription
from rankcast.model.times import format_time
from rankcast.model.values import AttributeValue, Value, elements_of, family_of
from rankcast.model.valuesets.sets import ValueSet

TRUTH_WORDS = {True: "yes", False: "no", None: "unknown"}


@dataclass(frozen=True, slots=True)
class NeededChange:
    """One attribute that keeps an event from matching: what was seen (None: missing) and what was needed."""

    attribute: str
    seen: AttributeValue | None
    needed: ValueSet

    def __str__(self) -> str:
        seen = "missing" if self.seen is None else format_attribute(self.seen)
        return f"{format_value_set(self.attribute, self.needed)} (it is {seen})"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one event matches one subscription or not; `str()` gives a page for people."""

    event: Event
    subscription: Subscription
    active: bool
    verdict: Evaluation
    changes: tuple[NeededChange, ...]

    @property
    def matched(self) -> bool:
        """Whether the event satisfies the subscription."""
        return self.active and self.verdict.truth is True

    @property
    def constraints(self) -> tuple[Evaluation, ...]:
        """The verdicts on the single constraints, in the order they were written.

        A constraint under `not` is given with its `not`, so that true always speaks for a match.
        """
        return tuple(_leaves(self.verdict, negated=False))

    def __str__(self) -> str:
        headline = "match" if self.matched else "no match"
        lines = [f"{headline}: {format_expression(self.subscription.filter.expression)}"]
        if not self.active:
            lines.append(f"  inactive at {_when(self.event.time)}: {_activity(self.subscription)}")
        lines += (
            f"  {TRUTH_WORDS[verdict.truth]:8} {text}   {reason(verdict)}"
            for verdict, text in zip(self.constraints, _aligned(self.constraints), strict=True)
        )
        if self.verdict.truth is not True:
            if self.changes:
                lines.append("to match: " + " and ".join(map(str, self.changes)))
            else:
                lines.append("to match: nothing helps, no event can satisfy this filter")
        return "\n".join(lines)


def explain(event: Event, subscription: Subscription) -> Explanation:
    """Explain why an event matches a subscription or why not.

    >>> from rankcast.language.parser import parse_filter
    >>> event = Event.of({"city": "Porto", "rent": 1200}, id="1", source="/flats")
    >>> print(explain(event, Subscription("cheap", parse_filter("city = 'Porto' and rent between 500 and 900"))))
    no match: city = 'Porto' and rent between 500 and 900
      yes      city = 'Porto'             city is 'Porto'
      no       rent between 500 and 900   rent is 1200, 300 above 900
    to match: rent between 500 and 900 (it is 1200)
    """
    verdict = judge(subscription.filter.expression, event.attributes)
    changes = () if verdict.truth is True else _fewest_changes(event, subscription)
    return Explanation(event, subscription, subscription.is_active_at(event.time), verdict, changes)


def _fewest_changes(event: Event, subscription: Subscription) -> tuple[NeededChange, ...]:
    ways = [
        tuple(
            NeededChange(name, event.attributes.get(name), values)
            for name, values in conjunction
            if not values.accepts(event.attributes.get(name))
        )
        for conjunction in subscription.filter.conjunctions
    ]
    return min(ways, key=len, default=())


def reason(verdict: Evaluation) -> str:
    """Say in words what one constraint saw, and by how much it was missed."""
    constraint, value = verdict.expression, verdict.value
    negated = isinstance(constraint, Not)
    if isinstance(constraint, Not):
        constraint = constraint.part
    if not isinstance(constraint, Constraint):
        return ""
    if value is None:
        return f"{constraint.attribute} is missing"
    seen = f"{constraint.attribute} is {format_attribute(value)}"
    if verdict.truth is None and constraint.family is not None:
        if isinstance(value, tuple) and constraint.operator not in OF_ELEMENTS:
            return f"{seen}, a list, which is asked for its elements by has, has any, has all and has none"
        family = family_of(elements_of(value)[0]).value  # an empty list is comparable with everything
        kind = f"a list of {family}s" if isinstance(value, tuple) else f"a {family}"
        return f"{seen}, {kind}, not comparable with a {constraint.family.value}"
    if constraint.operator in OF_ELEMENTS:
        return f"{seen}; {_elements(constraint, elements_of(value))}"
    if isinstance(value, tuple):
        return seen
    distance = None if verdict.truth or negated else _distance(constraint, value)
    return f"{seen}, {distance}" if distance else seen


MOST_SHOWN = 12
"""Elements of a list that are shown."""


def format_attribute(value: AttributeValue) -> str:
    """Return what an attribute holds, as people read it: the first elements of a long list."""
    if not isinstance(value, tuple):
        return format_value(value)
    more = [f"... ({len(value):,} elements)"] if len(value) > MOST_SHOWN else []
    return f"[{', '.join([*map(format_value, value[:MOST_SHOWN]), *more])}]"


def _elements(constraint: Constraint, elements: tuple[Value, ...]) -> str:
    """Say which of the constants of a `has` decided: those that are in a list, or those that are not."""
    missing = [constant for constant in constraint.constants if constant not in elements]
    found = [constant for constant in constraint.constants if constant in elements]
    wants_all = constraint.operator in (Operator.HAS, Operator.HAS_ALL)
    is_in = not missing if wants_all else bool(found)
    told = found if is_in else missing
    shown = " and ".join(filter(None, (", ".join(map(format_value, told[:-1])), format_value(told[-1]))))
    return f"{shown} {'is' if len(told) == 1 else 'are'} {'' if is_in else 'not '}in it"


def _distance(constraint: Constraint, value: Value) -> str | None:
    """Say how far a number or time is from the nearest constant it failed to reach."""
    if isinstance(value, bool | str) or constraint.operator in (Operator.NE, Operator.EXISTS):
        return None
    near = min(constraint.constants, key=lambda constant: abs(constant - value))  # type: ignore[operator]
    gap = abs(near - value)  # type: ignore[operator]
    if not gap:
        return None  # the value is the very end point that the constraint leaves out
    side = "above" if value > near else "below"  # type: ignore[operator]
    return f"{gap:.6g} {side} {format_value(near)}" if isinstance(gap, float) else f"{gap} {side} {format_value(near)}"


def _leaves(verdict: Evaluation, *, negated: bool) -> Iterator[Evaluation]:
    if not verdict.parts:
        truth = negation(verdict.truth) if negated else verdict.truth
        yield Evaluation(Not(verdict.expression) if negated else verdict.expression, truth, verdict.value)
    for part in verdict.parts:
        yield from _leaves(part, negated=negated != isinstance(verdict.expression, Not))


def _aligned(verdicts: tuple[Evaluation, ...]) -> list[str]:
    texts = [format_expression(verdict.expression) for verdict in verdicts]
    width = min(max(map(len, texts), default=0), 60)
    return [text.ljust(width) for text in texts]


def _when(time: datetime | None) -> str:
    return "an unknown time" if time is None else format_time(time)


def _activity(subscription: Subscription) -> str:
    since = "" if subscription.active_from is None else f"from {format_time(subscription.active_from)}"
    until = "" if subscription.active_until is None else f"until {format_time(subscription.active_until)}"
    return "active " + " ".join(filter(None, (since, until)))
