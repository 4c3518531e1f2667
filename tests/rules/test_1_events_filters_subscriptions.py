"""Section 1 of the rules: events, filters, subscriptions. One class per rule; a test's name says it."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings

import rankcast as rc
from rankcast.matching.entries import Entry
from rankcast.matching.index import Index
from rankcast.matching.naive import evaluate, matches
from rankcast.model.cloudevents import event_from_json, event_to_json
from rankcast.model.errors import FilterTooLargeError, InvalidEventError
from rankcast.model.events import Identity
from rankcast.model.filters import MAX_CONJUNCTIONS
from rankcast.testing.strategies import attributes, expressions
from rule_builders import at, event, holds, seconds

BIG = 2**53


class TestRule1Events:
    def test_an_event_has_attributes_of_five_types(self):
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        seen = event("1", flag=True, count=3, size=2.5, city="Porto", since=noon).attributes
        kinds = {name: type(seen[name]) for name in ("flag", "count", "size", "city", "since")}
        assert kinds == {"flag": bool, "count": int, "size": float, "city": str, "since": datetime}

    def test_times_are_utc_whatever_zone_they_are_given_in(self):
        lisbon = datetime(2026, 7, 1, 13, tzinfo=timezone(timedelta(hours=1)))
        assert event("1", since=lisbon).attributes["since"] == datetime(2026, 7, 1, 12, tzinfo=UTC)
        with pytest.raises(InvalidEventError, match="since"):
            event("1", since=datetime(2026, 7, 1))  # noqa: DTZ001

    def test_integers_are_those_of_64_bits(self):
        assert event("1", count=2**63 - 1).attributes["count"] == 2**63 - 1
        with pytest.raises(InvalidEventError, match="count"):
            event("1", count=2**63)

    def test_the_envelope_is_that_of_cloudevents_1_0_with_its_expiry_as_an_extension(self):
        written = event_to_json(event("1", time=0, expires=60, city="Porto"))
        assert written["specversion"] == "1.0"
        assert {"id", "source", "type", "time", "expirytime", "data"} <= written.keys()
        read = event_from_json(written)
        assert (read.id, read.source, read.time, read.expires) == ("1", "/s", at(0), at(60))

    @pytest.mark.parametrize("text", ["id = '1'", "source prefix '/s'", "time < time '2027-01-01T00:00:00Z'"])
    def test_filters_see_the_envelope(self, text):
        assert evaluate(rc.parse_filter(text).expression, event("1", time=0).attributes) is True

    def test_filters_see_the_payload_alike(self):
        assert holds("city = 'Porto' and id = '1'", city="Porto")

    def test_identity_is_source_and_id(self):
        assert event("1", source="/a").identity == Identity("/a", "1")
        assert len({event("1", source="/a").identity, event("1", source="/b").identity}) == 2
        hub = rc.Hub()
        hub.subscribe("ana", "x = 1")
        assert len(hub.publish(event("1", source="/a", x=1))) == 1
        assert len(hub.publish(event("1", source="/b", x=1))) == 1
        assert hub.publish(event("1", source="/a", x=1)) == []


class TestRule2Values:
    def test_values_keep_their_type(self):
        seen = event("1", whole=1, real=1.0, flag=True).attributes
        assert [type(seen[name]) for name in ("whole", "real", "flag")] == [int, float, bool]

    def test_int_and_float_compare_by_value(self):
        assert holds("x = 1", x=1.0)
        assert holds("x = 1.0", x=1)
        assert holds("x > 1", x=1.5)

    @pytest.mark.parametrize(
        "text", [f"x = {BIG + 1}", f"x > {BIG}", f"x >= {BIG + 1}", f"x between {BIG + 1} and {BIG + 2}"]
    )
    def test_an_int_above_two_to_the_53_never_passes_through_a_float(self, text):
        assert holds(text, x=BIG + 1)
        assert not holds(text, x=BIG)
        assert not holds(text, x=float(BIG))

    def test_minus_zero_is_zero(self):
        assert holds("x = 0.0", x=-0.0)
        assert holds("x = -0.0", x=0)
        assert not holds("x < 0", x=-0.0)

    def test_a_bool_is_not_an_int(self):
        assert not holds("x = 1", x=True)
        assert not holds("x = true", x=1)
        assert holds("x = true", x=True)

    def test_a_string_never_equals_a_number(self):
        assert not holds("x = 1", x="1")
        assert not holds("x = '1'", x=1)

    @pytest.mark.parametrize("nothing", [None, math.nan])
    def test_null_and_nan_in_an_event_mean_that_the_attribute_is_missing(self, nothing):
        assert "x" not in event("1", x=nothing).attributes
        assert not holds("exists x", x=nothing)
        assert holds("not exists x", x=nothing)


class TestRule3Filters:
    @pytest.mark.parametrize(
        ("text", "yes", "no"),
        [
            ("x = 5", 5, 6),
            ("x != 5", 6, 5),
            ("x < 5", 4, 5),
            ("x <= 5", 5, 6),
            ("x > 5", 6, 5),
            ("x >= 5", 5, 4),
            ("x between 2 and 4", 4, 5),
            ("x in (1, 3)", 3, 2),
            ("x like 'P%t_'", "Porto", "Porta Nova"),
            ("x prefix 'Po'", "Porto", "Oporto"),
            ("x suffix 'to'", "Porto", "Portos"),
            ("x contains 'ort'", "Porto", "Prto"),
        ],
    )
    def test_every_operator(self, text, yes, no):
        assert holds(text, x=yes)
        assert not holds(text, x=no)
        assert holds(f"not ({text})", x=no)

    def test_exists(self):
        assert holds("exists x", x=0)
        assert not holds("exists x")

    def test_and_or_not(self):
        text = "(x = 1 or y = 1) and not (x = 1 and y = 1)"
        assert [holds(text, x=x, y=y) for x, y in ((0, 0), (0, 1), (1, 0), (1, 1))] == [False, True, True, False]

    def test_a_filter_is_lowered_to_a_disjunction_of_conjunctions(self):
        lowered = rc.parse_filter("(a = 1 or b = 1) and (c = 1 or d = 1)").conjunctions
        assert [sorted(name for name, _ in one) for one in lowered] == [["a", "c"], ["a", "d"], ["b", "c"], ["b", "d"]]

    def test_past_the_bound_a_clear_error_names_the_bound(self):
        wide = " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(12))
        with pytest.raises(FilterTooLargeError, match=str(MAX_CONJUNCTIONS)):
            rc.parse_filter(wide)

    def test_a_conjunction_matches_when_every_constraint_holds(self):
        assert holds("a = 1 and b = 2 and c = 3", a=1, b=2, c=3)
        assert not holds("a = 1 and b = 2 and c = 3", a=1, b=2, c=4)

    @pytest.mark.parametrize(
        "text", ["x = 1", "x != 1", "x > 1", "not (x > 1)", "not (x = 1)", "x not in (1, 2)", "not (x like 'a%')"]
    )
    def test_a_missing_attribute_fails_every_constraint_on_it(self, text):
        assert not holds(text, y=1)

    def test_only_not_exists_holds_for_a_missing_attribute(self):
        assert holds("not exists x", y=1)

    def test_not_unknown_is_unknown_and_only_true_matches(self):
        unknown = rc.attr("x") > 1
        assert evaluate(unknown, {}) is None
        assert evaluate(~unknown, {}) is None
        assert evaluate(~~unknown, {}) is None

    def test_unknown_yields_to_a_true_alternative_and_to_a_false_conjunct(self):
        assert evaluate((rc.attr("x") > 1) | (rc.attr("y") == 1), {"y": 1}) is True
        assert evaluate(~((rc.attr("x") > 1) & (rc.attr("y") == 2)), {"y": 1}) is True

    @pytest.mark.parametrize("text", ["x < 'a'", "x != 'a'", "not (x = 'a')", "x prefix 'a'", "not (x contains 'a')"])
    def test_a_comparison_of_different_types_is_unknown(self, text):
        assert not holds(text, x=1)


class TestRule4Residues:
    @pytest.mark.parametrize(
        ("text", "same"),
        [
            ("x like '%a%b%'", ".*a.*b.*"),
            ("x like '_b%c_'", ".b.*c."),
            ("not (x like '%ab_')", "(?!.*ab.$).*"),
            ("x contains 'ab' and n > 2", ".*ab.*"),
        ],
    )
    @pytest.mark.parametrize("value", ["ab", "aab", "xabb", "abcc", "bbac", "", "cab1"])
    def test_what_the_index_cannot_use_is_verified_exactly(self, text, same, value):
        matches = re.fullmatch(same, value) is not None
        assert holds(text, x=value, n=3) == matches
        assert holds(text, x=value, n=1) == (matches and "n > 2" not in text)

    @settings(max_examples=50)
    @given(expressions(), attributes())
    def test_the_answer_is_exact_whatever_the_filter(self, expression, seen):
        try:
            wanted = rc.Filter.of(expression)
        except FilterTooLargeError:
            return
        found = Index([Entry.of(1, wanted)]).reader().match_one(seen).tolist()
        assert found == ([1] if evaluate(expression, seen) is True else [])


class TestRule4Lists:
    @pytest.mark.parametrize(
        ("text", "yes", "no"),
        [
            ("x has 'a'", ["a", "b"], ["b"]),
            ("x not has 'a'", ["b"], ["a", "b"]),
            ("x has any ('a', 'c')", ["b", "c"], ["b"]),
            ("x has all ('a', 'c')", ["a", "b", "c"], ["a", "b"]),
            ("not (x has all ('a', 'c'))", ["a"], ["a", "c"]),
            ("x has none ('a', 'c')", [], ["b", "c"]),
            ("x has 2", [2.0, 0.5], [3]),
            ("x has true", [True, False], [False]),
            ("x has 'a' and x has 'b'", ["b", "c", "a"], ["a"]),
            ("exists x", [], None),
        ],
    )
    def test_every_operator_of_lists(self, text, yes, no):
        assert holds(text, x=yes)
        assert not holds(text, x=no)

    def test_a_scalar_is_a_list_of_one(self):
        assert holds("x has 'a' and x has any ('a', 'b') and x has none ('b')", x="a")
        assert not holds("x has all ('a', 'b')", x="a")

    @pytest.mark.parametrize(
        "text",
        ["x = 'a'", "x != 'a'", "x in ('a')", "x > 'a'", "x prefix 'a'", "x like '%'", "x has 1", "x has none (1)"],
    )
    def test_any_other_operator_on_a_list_and_an_element_of_another_type_is_unknown(self, text):
        assert not holds(text, x=["a"])
        assert not holds(f"not ({text})", x=["a"])

    def test_a_missing_list_fails_has_none_too(self):
        assert not holds("x has none ('a')", y=["a"])
        assert not holds("x has none ('a')", x=None)

    def test_nulls_are_dropped_and_duplicates_count_once_but_a_vector_keeps_every_element(self):
        seen = event("1", x=["b", None, "a", "b"], v=[2.0, 1.0, 2.0])
        assert seen.attributes["x"] == ("b", "a")
        assert seen.vector("v") == (2.0, 1.0, 2.0)

    @pytest.mark.parametrize("value", [[1, "a"], [True, 1], [["a"]], [{"name": "a"}]])
    def test_what_is_no_list_of_values_of_one_type_is_an_error_that_names_the_place(self, value):
        with pytest.raises(InvalidEventError, match="skills: the list holds"):
            event("1", skills=value)

    def test_an_event_with_such_a_list_is_set_aside(self):
        hub = rc.Hub()
        hub.subscribe("ana", "skills has 'Go' or true")
        with pytest.raises(InvalidEventError, match=r"jobs\.skills"):
            hub.publish({"jobs": {"skills": ["Go", 1]}})
        assert len(hub.publish({"skills": ["Go"]})) == 1


class TestRule5Subscriptions:
    def test_a_filter_is_true_when_a_subscription_only_ranks(self):
        hub = rc.Hub()
        point = rc.IdealPoint([rc.Target("x", 0)])
        hub.add(
            rc.Subscriber(
                "ana", (rc.Subscription("near", rc.parse_filter("true"), relevance=point),), rc.TopKWindow(1, 9)
            )
        )
        assert [note.rank for note in hub.publish({"x": 2})] == [-2.0]

    def test_a_subscription_has_a_preference_rank_or_a_relevance_or_both(self):
        near = rc.Closeness([rc.Target("x", 0, scale=10)])
        hub = rc.Hub()
        for name, options in {"rank": {"rank": 0.5}, "near": {"relevance": near}}.items():
            hub.add(rc.Subscriber(name, (rc.Subscription("s", rc.parse_filter("x >= 0"), **options),)))
        hub.add(rc.Subscriber("both", (rc.Subscription("s", rc.parse_filter("x >= 0"), 0.5, relevance=near),)))
        assert {note.subscriber: note.rank for note in hub.publish({"x": 2})} == {"rank": 0.5, "near": 0.8, "both": 0.4}

    def test_it_is_active_from_its_start_and_until_before_its_end_in_event_time(self):
        wanted = rc.Subscription("s", rc.parse_filter("x = 1"), active_from=at(10), active_until=at(20))
        seen = {time: matches(wanted, event("1", time=time, x=1)) for time in (9, 10, 19, 20)}
        assert seen == {9: False, 10: True, 19: True, 20: False}

    def test_all_subscriptions_of_a_subscriber_compete_for_one_policy(self):
        hub = rc.Hub()
        hub.subscribe("ana", {"x = 1": 0.9, "y = 1": 0.5}, deliver=rc.Sliding(k=1, window=10))
        assert [len(hub.publish(event(str(n), **seen))) for n, seen in enumerate(({"x": 1}, {"y": 1}))] == [1, 0]

    def test_a_policy_may_belong_to_one_subscription(self):
        hub = rc.Hub()
        own = rc.Subscription("y", rc.parse_filter("y = 1"), 0.5, deliver=rc.Sliding(k=1, window=10))
        shared = rc.Subscription("x", rc.parse_filter("x = 1"), 0.9)
        hub.add(rc.Subscriber("ana", (shared, own), rc.Sliding(k=1, window=10)))
        found = [hub.publish(event(str(n), **seen)) for n, seen in enumerate(({"x": 1}, {"y": 1}))]
        assert [[note.subscription for note in notes] for notes in found] == [[None], ["y"]]

    def test_its_events_expire_after_its_refresh_time(self):
        wanted = rc.Subscription("s", rc.parse_filter("x >= 0"), 0.9, refresh=seconds(10))
        hub = rc.Hub([rc.Subscriber("ana", (wanted,), rc.Periodic(5, seconds(15)))])
        for time in (2, 6):
            hub.publish(event(str(time), time=time, x=time), now=at(time))
        assert [note.event.id for note in hub.advance(at(15))] == ["6"]
