"""A subscription as the index sees it, and the check of an event's values: what every way of matching starts from.

Nothing here or in `few` and `index` imports a kernel: the first events of a program are matched without a compiler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rankcast.model.errors import DuplicateIdError, InvalidEventError, InvalidValueError
from rankcast.model.filters import Conjunction, Filter
from rankcast.model.values import Value, checked_value
from rankcast.model.valuesets.intervals import Domain, IntervalSet
from rankcast.model.valuesets.sets import ValueSet


@dataclass(frozen=True, slots=True)
class Entry:
    """One subscription as the index sees it: its number, and the conjunctions that say when it matches."""

    number: int
    conjunctions: tuple[Conjunction, ...]

    @staticmethod
    def of(
        number: int, wanted: Filter, active_from: datetime | None = None, active_until: datetime | None = None
    ) -> Entry:
        """Return a subscription's entry; when it is active is one more constraint, on the event's time."""
        if active_from is None and active_until is None:
            return Entry(number, wanted.conjunctions)
        active = IntervalSet.between(Domain.TIME, active_from, active_until, high_closed=False)
        bound = Conjunction((("time", ValueSet(times=active)),))
        both = (conjunction & bound for conjunction in wanted.conjunctions)
        return Entry(number, tuple(conjunction for conjunction in both if conjunction is not None))

    def accepts(self, attributes: Mapping[str, Value]) -> bool:
        """Whether an event with these attributes matches."""
        # Written as plain loops: this is what an index does for every event and every one of a few subscriptions.
        for conjunction in self.conjunctions:
            for name, values in conjunction.items:
                if not values.accepts(attributes.get(name)):
                    break
            else:
                return True
        return False


def check_once(entries: Sequence[Entry]) -> None:
    """Raise DuplicateIdError when two entries have the same number."""
    if len(entries) > 1:
        for number, times in Counter(entry.number for entry in entries).items():
            if times > 1:
                raise DuplicateIdError(f"subscription number {number} is used twice")


def checked(raw: object, name: str) -> Value | None:
    """Return an attribute's value, or None when it is missing; raises InvalidEventError, naming it."""
    try:
        return checked_value(raw, name)
    except InvalidValueError as error:
        raise InvalidEventError(str(error)) from None
