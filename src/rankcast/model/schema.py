"""Schemas: what is declared of attributes, so that mistakes are found early and integers are known to be integers.

A schema is optional. With one, a filter may only name declared attributes (and those of the envelope) with constants of
the declared type; an event must have the required attributes, and those declared must have their type. Attributes an
event carries beyond the schema are kept. Covering uses the declarations too: a required attribute is never missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

from rankcast.model.errors import (
    FilterTypeError,
    InvalidEventError,
    InvalidSubscriptionError,
    InvalidValueError,
    UnknownAttributeError,
    near_name,
    shown,
)
from rankcast.model.expressions import OF_ELEMENTS, Constraint
from rankcast.model.times import EXPECTED_TIME, parse_time
from rankcast.model.values import (
    FAMILY_OF_TYPE,
    INFINITE_TEXTS,
    INT_MAX,
    INT_MIN,
    AttributeValue,
    Value,
    ValueType,
    checked_name,
    elements_of,
    type_of,
)
from rankcast.model.valuesets.intervals import Domain
from rankcast.model.valuesets.sets import ValueSet

ENVELOPE_TYPES: Mapping[str, ValueType] = {
    "id": ValueType.STRING,
    "source": ValueType.STRING,
    "specversion": ValueType.STRING,
    "type": ValueType.STRING,
    "subject": ValueType.STRING,
    "time": ValueType.TIME,
    "datacontenttype": ValueType.STRING,
    "dataschema": ValueType.STRING,
    "expirytime": ValueType.TIME,
}
"""The envelope attributes of CloudEvents 1.0 and the `expirytime` extension; a schema need not declare them."""

MAX_NAMES_SHOWN = 12
"""Declared names that an error message lists."""

SEPARATOR = ";"
"""What separates the elements of a list in a cell of CSV, unless a schema says otherwise."""


@dataclass(frozen=True)
class Schema:
    """Declared attributes with their types, and which of them every event has.

    >>> Schema({"rent": ValueType.INT}, required=frozenset({"rent"})).number_domain("rent")
    <Domain.INTEGER: 'integer'>
    """

    attributes: Mapping[str, ValueType] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    separators: Mapping[str, str] = field(default_factory=dict)
    """What separates the elements of a list in a cell of CSV, where it is not `SEPARATOR`."""

    def __post_init__(self) -> None:
        for name, declared in self.attributes.items():
            check_attribute(name, "schema: ")
            if not isinstance(declared, ValueType):
                raise InvalidSubscriptionError(
                    f"schema: {name!r} has the type {shown(declared)}; expected a ValueType, such as {ValueType.INT}"
                )
            known = ENVELOPE_TYPES.get(name)
            if known is not None and known is not declared:
                raise InvalidSubscriptionError(
                    f"schema: {name!r} belongs to the envelope and is a {known.value}, not a {declared.value}"
                )
        undeclared = sorted(self.required - self.attributes.keys() - ENVELOPE_TYPES.keys())
        for name, separator in self.separators.items():
            if name not in self.attributes or not self.attributes[name].is_list:
                raise InvalidSubscriptionError(f"schema: {name!r} has a separator, but is not declared to be a list")
            if len(separator) != 1 or separator in '"\r\n\0':
                raise InvalidSubscriptionError(
                    f"schema: the separator of {name!r} is {shown(separator)}; expected one character, not a quote"
                )
        if undeclared:
            raise InvalidSubscriptionError(f"schema: required but not declared: {', '.join(map(repr, undeclared))}")

    def __hash__(self) -> int:
        return hash((frozenset(self.attributes.items()), self.required, frozenset(self.separators.items())))

    def type_of(self, attribute: str) -> ValueType:
        """Return the declared type; an unknown name is an error that suggests the nearest known one."""
        found = self.attributes.get(attribute) or ENVELOPE_TYPES.get(attribute)
        if found is not None:
            return found
        near = near_name(attribute, (*self.attributes, *ENVELOPE_TYPES))
        declared = ", ".join(nsmallest(MAX_NAMES_SHOWN, self.attributes)) or "none"
        more = ", ..." if len(self.attributes) > MAX_NAMES_SHOWN else ""
        hint = f"; did you mean {near!r}?" if near else f"; declared are {declared}{more}"
        raise UnknownAttributeError(f"unknown attribute {shown(attribute)}{hint}")

    def check(self, constraint: Constraint) -> None:
        """Raise when a constraint names an unknown attribute, or constants that it cannot be compared with."""
        declared = self.type_of(constraint.attribute)
        family = constraint.family
        if family is not None and family is not FAMILY_OF_TYPE[declared]:
            raise FilterTypeError(
                f"{constraint.attribute} is declared {declared.value}; "
                f"it cannot be compared with {shown(constraint.constants[0])} ({family.value})"
            )
        if declared.is_list and family is not None and constraint.operator not in OF_ELEMENTS:
            raise FilterTypeError(
                f"{constraint.attribute} is declared {declared.value}; a list is asked for its elements by `has`, "
                f"`has any`, `has all` and `has none`, not by `{constraint.operator.value}`"
            )

    def number_domain(self, attribute: str) -> Domain:
        """Return whether an attribute's numbers are integers or reals."""
        is_integer = self.attributes.get(attribute) in (ValueType.INT, ValueType.INTS)
        return Domain.INTEGER if is_integer else Domain.REAL

    def simplified(self, attribute: str, values: ValueSet) -> ValueSet:
        """Return the plainest value set that accepts the same of what the attribute may be."""
        declared = self.type_of(attribute)
        return values.within(FAMILY_OF_TYPE[declared], required=attribute in self.required, is_list=declared.is_list)

    def conformed(self, attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        """Return an event's attributes in their declared types; raise InvalidEventError where one does not fit.

        What loses nothing is converted: whole floats to int, ints to float, text to time, the texts that stand for
        infinite floats in JSON, and a scalar to a list of one.
        """
        conformed = dict(attributes)
        for name, declared in self.attributes.items():
            if name in conformed:
                conformed[name] = _conformed_attribute(name, conformed[name], declared)
        missing = sorted(self.required - conformed.keys())
        if missing:
            raise InvalidEventError(f"required attribute missing: {', '.join(missing)}")
        return conformed


def check_attribute(name: object, where: str = "") -> None:
    """Raise unless `name` can be that of an attribute."""
    try:
        checked_name(name)
    except InvalidValueError as error:
        raise InvalidSubscriptionError(f"{where}{error}") from None


def _conformed_attribute(name: str, value: AttributeValue, declared: ValueType) -> AttributeValue:
    if not declared.is_list:
        if isinstance(value, tuple):
            expected = f"one value of type {declared.value}; a list is declared [{declared.value}]"
            raise InvalidEventError(f"{name}: {shown(list(value))} is a list; expected {expected}")
        return _conformed(name, value, declared)
    kind = declared.element
    elements = elements_of(value)
    if any(type_of(element) is not kind for element in elements):
        elements = tuple(_conformed(name, element, kind) for element in elements)
    return elements


def _conformed(name: str, value: Value, declared: ValueType) -> Value:
    actual = type_of(value)
    if actual is declared:
        return value
    if declared is ValueType.INT and isinstance(value, float) and value.is_integer() and INT_MIN <= value <= INT_MAX:
        return int(value)
    if declared is ValueType.FLOAT and isinstance(value, int) and actual is ValueType.INT and float(value) == value:
        return float(value)
    if declared is ValueType.FLOAT and isinstance(value, str) and value in INFINITE_TEXTS:
        return float(value)
    if declared is ValueType.TIME and isinstance(value, str):
        try:
            return parse_time(value)
        except InvalidValueError as error:
            raise InvalidEventError(f"{name}: {error}") from None
    expected = EXPECTED_TIME if declared is ValueType.TIME else f"a value of type {declared.value}"
    raise InvalidEventError(f"{name}: {shown(value)} is of type {actual.value}; expected {expected}")
