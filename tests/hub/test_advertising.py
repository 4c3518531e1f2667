"""What publishers advertise to a hub: whom events are for, what is refused, and that it all outlasts the process."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankcast as rc
from rankcast.hub import Verdict
from rankcast.model.errors import DuplicateIdError, InvalidEventError, InvalidSubscriptionError, UnknownIdError
from rankcast.testing.conformance import HubEngine, advertised_cases, delivery_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BY_ID = rc.AudienceRanking(rc.Scoring.NONE, rc.Ties.BY_ID)
PREFERRED = rc.AudienceRanking(rc.Scoring.PREFERENCE, rc.Ties.BY_ID)


def hub_of(people, **options):
    made = rc.Hub(clock=lambda: NOW, **options)
    made.subscribe_many(people)
    return made


def names(notes):
    return [note.subscriber for note in notes]


EVERYBODY = dict.fromkeys(("ana", "bo", "cy", "di"), "true")


class TestWhomAnEventBelongsTo:
    def test_without_an_advertisement_every_match_gets_it(self):
        hub = hub_of(EVERYBODY)
        hub.advertise("others", source="/others", k=1)
        assert names(hub.publish({"x": 1})) == ["ana", "bo", "cy", "di"]

    def test_an_advertisement_without_k_limits_nothing_but_space_and_schema(self):
        hub = hub_of(EVERYBODY)
        hub.advertise("small", space="x < 5", schema=rc.Schema({"x": rc.ValueType.FLOAT}, frozenset({"x"})))
        (note, *_) = hub.publish({"x": 1})
        assert isinstance(note.event.attributes["x"], float)
        for outside in ({"x": 7}, {"y": 1}, {"x": "one"}):
            with pytest.raises(InvalidEventError, match="is not what 'small' advertises"):
                hub.publish(outside)

    def test_it_belongs_to_the_one_it_names_or_to_that_of_its_source(self):
        hub = hub_of(EVERYBODY)
        hub.advertise("two", k=2, ranking=BY_ID)
        hub.advertise("flats", source="/flats", k=1, ranking=BY_ID)
        assert names(hub.publish({"x": 1})) == ["ana", "bo"]
        assert names(hub.publish(rc.Event("1", "/flats"))) == ["ana"]
        (note,) = hub.publish({"x": 1}, advertisement="flats")
        assert note.event.source == "/flats"
        with pytest.raises(InvalidEventError, match="is not what 'two' advertises"):
            hub.publish(rc.Event("2", "/flats"), advertisement="two")
        with pytest.raises(UnknownIdError, match="there is no advertisement 'cars'"):
            hub.publish({"x": 1}, advertisement="cars")

    def test_of_several_of_its_source_it_is_the_one_that_permits_it_or_it_has_to_name_one(self):
        hub = hub_of(EVERYBODY)
        hub.advertise("low", space="x < 5", k=1, ranking=BY_ID)
        hub.advertise("high", space="x > 3", k=2, ranking=BY_ID)
        assert [len(hub.publish({"x": x})) for x in (1, 9)] == [1, 2]
        with pytest.raises(InvalidEventError, match="is advertised by 'low', 'high'; name one"):
            hub.publish({"x": 4})
        assert len(hub.publish({"x": 4}, advertisement="high")) == 2

    def test_one_event_may_ask_for_fewer_but_not_for_more(self):
        hub = hub_of(EVERYBODY)
        hub.advertise("all", k=3, ranking=BY_ID)
        assert [len(hub.publish({"x": 1}, k=k)) for k in (None, 3, 1, 0)] == [3, 3, 1, 0]
        with pytest.raises(InvalidEventError, match="k: 4 is more than advertisement 'all' has, 3"):
            hub.publish({"x": 1}, k=4)
        for odd in ("1", [], True, -1, 1.0):
            with pytest.raises(InvalidEventError, match=r"k: .* is not a whole number of at least 0"):
                hub.publish({"x": 1}, k=odd)
        with pytest.raises(InvalidEventError, match="k: 1 needs an advertisement of source '/flats'"):
            hub.publish(rc.Event("1", "/flats"), k=1)

    def test_many_at_once_go_to_the_same_and_what_is_not_advertised_is_reported(self):
        hub, other = hub_of(EVERYBODY), hub_of(EVERYBODY)
        for made in (hub, other):
            made.advertise("all", space="x < 5", k=2)
        events = [{"x": x} for x in (1, 2, 7, 3)]
        found = hub.publish_many(events)
        assert found.notifications == [note for event in events if event["x"] < 5 for note in other.publish(event)]
        assert [one.index for one in found.rejected] == [2]

    def test_it_ends_when_it_is_withdrawn(self):
        hub = hub_of(EVERYBODY)
        made = hub.advertise("all", k=1)
        assert hub.advertisements == (made,)
        with pytest.raises(DuplicateIdError, match="there is an advertisement 'all' already"):
            hub.advertise(made)
        hub.withdraw("all")
        assert hub.advertisements == ()
        assert len(hub.publish({"x": 1})) == 4
        with pytest.raises(UnknownIdError, match="there is no advertisement 'all'"):
            hub.withdraw("all")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"k": 0}, "k: 0 is not a whole number of at least 1"),
            ({"ranking": "best"}, "ranking: 'best' is not one of none, preference, relevance, diversity"),
            ({"space": 7}, "7 is not a filter"),
            ({"source": 7}, "source: 7 is not a text"),
        ],
    )
    def test_what_cannot_be_advertised_is_refused(self, options, message):
        hub = hub_of(EVERYBODY)
        with pytest.raises(InvalidSubscriptionError, match=message):
            hub.advertise("all", **options)
        assert hub.advertisements == ()


class TestWhoIsChosen:
    def test_chance_is_the_same_in_every_hub_and_another_one_with_another_seed(self):
        def winners(seed):
            hub = hub_of(EVERYBODY)
            hub.advertise("all", k=1, ranking=rc.AudienceRanking(seed=seed))
            return [names(hub.publish({"x": x})) for x in range(20)]

        assert winners(1) == winners(1) != winners(2)

    def test_a_subscriber_whose_relevance_needs_what_is_missing_takes_no_place(self):
        hub = rc.Hub(clock=lambda: NOW)
        near = rc.Closeness([rc.Target("y", 0, scale=10)])
        hub.subscribe("ana", [rc.Subscription("1", rc.parse_filter("true"), relevance=near)])
        hub.subscribe("bo", "true")
        hub.advertise("all", k=1, ranking=BY_ID)
        assert names(hub.publish({"x": 1})) == ["bo"]
        assert names(hub.publish({"y": 1})) == ["ana"]

    def test_explain_says_where_a_subscriber_stands_among_those_whom_the_event_interests(self):
        hub = hub_of({f"s{number:02}": "true" for number in range(12)})
        hub.advertise("all", k=10, ranking=BY_ID)
        last, chosen = hub.explain({"x": 1}, "s11"), hub.explain({"x": 1}, "s03")
        assert (last.verdict, last.standing) == (Verdict.NOT_CHOSEN, (12, 10))
        assert str(last).endswith("s11: not delivered: the subscriber is 12th, and it was for the best 10")
        assert (chosen.verdict, chosen.standing) == (Verdict.DELIVERED, (4, 10))
        places = {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th"}
        assert [str(last.standing._replace(place=place)) for place in places] == [
            f"{words}, and it was for the best 10" for words in places.values()
        ]
        assert hub.explain({"x": 1}, "s03", k=3).verdict is Verdict.NOT_CHOSEN
        assert names(hub.publish({"x": 1})) == [f"s{number:02}" for number in range(10)]

    def test_whom_a_late_event_was_for_is_kept_with_it(self):
        hub = hub_of(EVERYBODY, lateness=5 * SECOND)
        hub.advertise("all", k=1, ranking=BY_ID)
        assert hub.publish({"x": 1}) == []
        assert hub.explain({"x": 1}, "bo").verdict is Verdict.NOT_CHOSEN
        assert hub.explain({"x": 1}, "ana").verdict is Verdict.HELD
        hub.withdraw("all")
        assert names(hub.finish()) == ["ana"]


class TestDurability:
    @settings(max_examples=40)
    @given(case=advertised_cases(everything=True), every=st.integers(1, 5), reopen=st.sets(st.integers(0, 20)))
    def test_a_hub_that_is_opened_again_chooses_as_if_nothing_had_happened(self, tmp_path_factory, case, every, reopen):
        path = tmp_path_factory.mktemp("hub") / "hub.db"
        expected = [note for note in HubEngine().deliveries(case) if note.time is not None]
        found = []
        hub = rc.Hub(case.subscribers, advertisements=case.advertisements, path=path, snapshot_every=every)
        for at, step in enumerate(case.steps):
            if at in reopen:
                if at % 2:
                    hub.close()
                else:
                    hub._journal.abandon()  # as if it was killed
                hub = rc.Hub(path=path, snapshot_every=every)
            if isinstance(step, rc.Event):
                found += hub.publish(step, now=step.time, k=case.asked.get(step.identity))
            else:
                found += (note for owner, name in case.lists for note in hub.read(owner, name, step))
        found += hub.finish()
        assert hub.advertisements == case.advertisements
        hub.close()
        assert [delivery_of(note) for note in found] == expected

    def test_what_waits_for_earlier_events_comes_back_with_whom_it_is_for(self, tmp_path):
        schema = rc.Schema({"x": rc.ValueType.FLOAT})
        with hub_of(EVERYBODY, lateness=5 * SECOND, path=tmp_path / "hub.db") as hub:
            hub.advertise("all", k=1, ranking=BY_ID, schema=schema)
            hub.publish({"x": 1})
        again = rc.Hub(path=tmp_path / "hub.db", lateness=5 * SECOND)
        (note,) = again.finish()
        assert (note.subscriber, type(note.event.attributes["x"])) == ("ana", float)

    def test_the_types_of_an_advertisement_come_back_from_the_log(self, tmp_path):
        hub = rc.Hub(clock=lambda: NOW, path=tmp_path / "hub.db")
        hub.subscribe("ana", "x = 1", deliver=rc.Sliding(1, 5))
        hub.advertise("all", schema=rc.Schema({"x": rc.ValueType.FLOAT}))
        hub.publish({"x": 1})
        hub._journal.abandon()
        (note,) = rc.Hub(path=tmp_path / "hub.db").read("ana", now=NOW)
        assert isinstance(note.event.attributes["x"], float)

    def test_a_hub_that_is_opened_with_advertisements_has_them_as_they_are_told(self, tmp_path):
        before, after = (rc.Advertisement("all", "hub", k=k) for k in (1, 2))
        with rc.Hub(advertisements=[before], path=tmp_path / "hub.db"):
            pass
        with rc.Hub(advertisements=[after, rc.Advertisement("b", "/b")], path=tmp_path / "hub.db") as hub:
            assert [(one.id, one.k) for one in hub.advertisements] == [("all", 2), ("b", None)]
