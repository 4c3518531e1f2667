"""Schemas: mistakes found early, conversions that lose nothing, and no others."""

from datetime import UTC, datetime

import pytest
from hypothesis import given

from rankcast.model.errors import (
    FilterTypeError,
    InvalidEventError,
    InvalidSubscriptionError,
    InvalidValueError,
    UnknownAttributeError,
)
from rankcast.model.expressions import attr
from rankcast.model.filters import Filter
from rankcast.model.schema import ENVELOPE_TYPES, Schema
from rankcast.model.values import INT_MAX, INT_MIN, ValueType, type_of
from rankcast.model.valuesets.intervals import Domain
from rankcast.testing.strategies import values

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FLATS = Schema(
    {
        "rent": ValueType.INT,
        "size": ValueType.FLOAT,
        "city": ValueType.STRING,
        "pets": ValueType.BOOL,
        "built": ValueType.TIME,
        "address.street": ValueType.STRING,
    },
    required=frozenset({"rent"}),
)
ANY_FIRST = {"rent": 1}
LONG = "a" * 1_001


class TestDeclaration:
    @pytest.mark.parametrize(
        ("attributes", "required", "reason"),
        [
            ({"a": ValueType.INT}, "cab", "required but not declared: 'b', 'c'"),
            ({"a": "int"}, "", "'a' has the type 'int'; expected a ValueType"),
            *(({name: ValueType.INT}, "", "an attribute name is 1 to 1,000 characters") for name in ("", 5, LONG)),
            *(({name: ValueType.INT}, "", f"{name!r} belongs to the envelope") for name in ENVELOPE_TYPES),
        ],
    )
    def test_what_is_no_schema_is_refused(self, attributes, required, reason):
        with pytest.raises(InvalidSubscriptionError, match=f"schema: .*{reason}"):
            Schema(attributes, frozenset(required))

    def test_envelope_attributes_need_no_declaration(self):
        assert Schema({}, frozenset({"subject"})).type_of("subject") is ValueType.STRING

    def test_envelope_attributes_have_their_type(self):
        assert all(Schema({name: own}).type_of(name) is own for name, own in ENVELOPE_TYPES.items())

    def test_equal_schemas_are_one_key(self):
        one = Schema({"rent": ValueType.INT, "city": ValueType.STRING}, required=frozenset({"city"}))
        other = Schema({"city": ValueType.STRING, "rent": ValueType.INT}, required=frozenset({"city"}))
        assert {one: 1}[other] == 1


class TestFilters:
    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("rents", "did you mean 'rent'"),
            ("citty", "did you mean 'city'"),
            ("adress.street", r"did you mean 'address\.street'"),
            ("sorce", "did you mean 'source'"),
            ("zzz", r"declared are address\.street, built, city, pets, rent, size"),
        ],
    )
    def test_an_unknown_name_suggests_the_nearest(self, name, hint):
        with pytest.raises(UnknownAttributeError, match=f"unknown attribute '{name}'; {hint}"):
            Filter.of(attr(name).exists(), FLATS)

    def test_a_long_list_of_names_is_cut(self):
        many = Schema({f"attribute{at}": ValueType.INT for at in range(1_000)})
        with pytest.raises(UnknownAttributeError, match=r"declared are attribute0, .*, \.\.\.") as caught:
            many.type_of("zzz")
        assert len(str(caught.value)) < 300

    def test_without_any_names_it_says_so(self):
        with pytest.raises(UnknownAttributeError, match="declared are none"):
            Schema().type_of("zzz")

    @pytest.mark.parametrize(
        "wanted",
        [
            attr("rent") == "700",
            attr("rent") == True,  # noqa: E712
            attr("city") == 7,
            attr("pets") == 1,
            attr("pets") == "true",
            attr("built") > "2026-03-01",
            attr("rent").like("7%"),
            attr("time") == "now",
            attr("id") == 5,
        ],
    )
    def test_constants_fit_the_declared_type(self, wanted):
        with pytest.raises(FilterTypeError, match=f"{wanted.attribute} is declared .* cannot be compared with"):
            Filter.of(wanted, FLATS)

    @pytest.mark.parametrize(
        "wanted",
        [attr("rent") == 700.5, attr("size") == 70, attr("built") > NOON, attr("time") < NOON, attr("pets") == True],  # noqa: E712
    )
    def test_numbers_are_one_family(self, wanted):
        assert Filter.of(wanted, FLATS).expression is wanted

    def test_a_mistake_in_any_part_is_found(self):
        with pytest.raises(UnknownAttributeError):
            Filter.of((attr("rent") > 1) | ~((attr("city") == "Porto") & attr("rooms").exists()), FLATS)

    def test_integers_are_known(self):
        assert FLATS.number_domain("rent") is Domain.INTEGER
        assert FLATS.number_domain("size") is Domain.REAL


LOSSY = {
    "rent": (700.5, 2.0**63, float("inf"), "700", True),
    "size": (2**53 + 1, INT_MAX, "70", "inf", True),
    "city": (7, False, NOON),
    "pets": (1, "true", 0.0),
    "built": (0, True),
}


class TestConversions:
    @pytest.mark.parametrize(
        ("name", "given", "kept"),
        [
            ("rent", 700.0, 700),
            ("rent", -0.0, 0),
            ("rent", 2.0**53, 2**53),
            ("rent", -(2.0**63), INT_MIN),
            ("size", 70, 70.0),
            ("size", 2**53, 2.0**53),
            ("size", INT_MIN, -(2.0**63)),
            ("size", "Infinity", float("inf")),
            ("size", "-Infinity", float("-inf")),
            ("built", "2026-03-01T12:00:00Z", NOON),
            ("built", "2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ],
    )
    def test_what_loses_nothing(self, name, given, kept):
        found = FLATS.conformed({**ANY_FIRST, name: given})[name]
        assert (found, type(found)) == (kept, type(kept))

    @pytest.mark.parametrize(("name", "given"), [(name, one) for name, wrong in LOSSY.items() for one in wrong])
    def test_what_would_lose_or_guess_is_refused(self, name, given):
        with pytest.raises(InvalidEventError, match=f"^{name}: .* is of type .*; expected "):
            FLATS.conformed({**ANY_FIRST, name: given})

    def test_a_text_that_is_no_time_is_refused(self):
        with pytest.raises(InvalidEventError, match="built: 'long ago' is not a time"):
            FLATS.conformed({**ANY_FIRST, "built": "long ago"})

    @given(values(), values())
    def test_the_result_is_of_the_declared_type_and_equal(self, rent, size):
        try:
            found = FLATS.conformed({"rent": rent, "size": size, "other": rent})
        except InvalidEventError:
            return
        assert (type_of(found["rent"]), type_of(found["size"])) == (ValueType.INT, ValueType.FLOAT)
        assert found["rent"] == rent
        assert found["size"] == size
        assert found["other"] is rent

    def test_what_is_required_must_be_there(self):
        with pytest.raises(InvalidEventError, match="required attribute missing: rent"):
            FLATS.conformed({"size": 70.0})

    def test_an_event_error_is_no_value_error(self):
        assert not issubclass(InvalidEventError, InvalidValueError)


def test_a_filter_is_lowered_once_under_a_schema():
    wanted = Filter.of(attr("rent") < 900, FLATS)
    assert wanted.under(FLATS) is wanted
    other = Schema({"rent": ValueType.FLOAT})
    assert wanted.under(other).conjunctions == Filter.of(attr("rent") < 900, other).conjunctions
    assert wanted.under(None).conjunctions == Filter.of(attr("rent") < 900).conjunctions
