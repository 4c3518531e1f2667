"""Section 4 of the rules, "Caps": how much of what a policy delivers is handed over, and how that is told."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs

import rankcast as rc
from rankcast.hub import Verdict, Withheld
from rankcast.language.lossless import decode, encode
from rankcast.language.parser import parse_filter
from rankcast.model.errors import InvalidSubscriptionError, UnknownAttributeError
from rankcast.model.policies import OnDemand
from rankcast.model.subscriptions import Subscriber, Subscription
from rankcast.testing.conformance import Case, HubEngine, check
from rule_builders import at, event, graded, handed, seconds

TEN = seconds(10)


def stream(*times, **attributes):
    return [event(f"{time}", time=time, **attributes) for time in times]


class TestCounting:
    def test_so_many_are_handed_over_in_a_period_and_the_others_never(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(2, TEN)))
        assert handed(engine, who, *stream(0, 1, 2, 9, 10, 11, 12)) == ["0", "1", "10", "11"]

    def test_an_instant_equal_to_a_start_belongs_to_the_new_period(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(1, TEN)))
        assert handed(engine, who, *stream(9.999999, 10, 19.999999, 20)) == ["9.999999", "10", "20"]

    def test_those_of_one_evaluation_are_taken_best_first(self, engine):
        who = graded(rc.Periodic(3, TEN, at_most=rc.Cap(2, rc.Every("day"))))
        arriving = [event(f"{x}", time=at_, x=x) for at_, x in ((0, 5), (1, 9), (2, 7))]
        assert handed(engine, who, *arriving) == ["9", "7"]

    def test_for_the_policy_a_capped_event_is_delivered(self, engine):
        """Else 1, the best of the window still, would be delivered when 11 comes. That is, when 12 has pushed 1 out."""
        who = graded(rc.Sliding(1, 2, at_most=rc.Cap(1, TEN)))
        arriving = [event(f"{time}", time=time, x=x) for time, x in ((0, 3), (1, 5), (11, 4), (12, 1))]
        assert handed(engine, who, *arriving) == ["0", "11"]

    def test_several_caps_hold_at_once_and_what_one_withholds_counts_in_none(self, engine):
        both = [rc.Cap(2, TEN), rc.Cap(1, TEN, per="firm")]
        arriving = [event(f"{time}{firm}", time=time, firm=firm) for time, firm in enumerate("aabc")]
        assert handed(engine, graded(rc.AllMatches(at_most=both)), *arriving) == ["0a", "2b"]
        week = [rc.Cap(2, TEN), rc.Cap(3, 3 * TEN)]
        assert handed(engine, graded(rc.AllMatches(at_most=week)), *stream(0, 1, 2, 10, 11, 20)) == ["0", "1", "10"]

    def test_caps_are_per_queue(self, engine):
        capped = rc.AllMatches(at_most=rc.Cap(1, TEN))
        own = Subscription("own", parse_filter("true"), deliver=capped)
        who = Subscriber("ana", (Subscription("shared", parse_filter("true")), own), capped)
        assert handed(engine, who, *stream(0, 1)) == ["0", "0"]

    def test_a_digest_is_cut_when_it_is_handed_over(self, engine):
        """All three are delivered in the first period of the cap, and handed over in the second, with the last."""
        who = graded(rc.AllMatches(at_most=rc.Cap(2, TEN)), notify=rc.Digest(seconds(12)))
        assert handed(engine, who, *stream(3, 4, 5, 13, 21)) == ["3", "4", "13", "21"]

    def test_the_zone_of_the_subscriber_is_that_of_its_caps(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(1, rc.Every("day"))), zone="Asia/Kathmandu")  # UTC+05:45
        assert handed(engine, who, *stream(0, 18.25 * 3600 - 1, 18.25 * 3600)) == ["0", "65700.0"]

    @pytest.mark.parametrize(
        ("every", "times", "through"),
        [
            pytest.param(
                rc.Every("day", at="08:00", zone="Europe/Berlin"),
                [
                    "2026-03-28T07:00Z",
                    "2026-03-28T08:00Z",
                    "2026-03-29T05:00Z",
                    "2026-03-29T06:00Z",
                    "2026-03-29T07:00Z",
                ],
                [0, 3],
                id="07:00 in winter and 06:00 in summer",
            ),
            pytest.param(
                rc.Every("day", at="02:30", zone="Europe/Berlin"),
                ["2026-10-25T00:29Z", "2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-26T01:30Z"],
                [0, 1, 3],
                id="a time that exists twice",
            ),
            pytest.param(
                rc.Every("day", zone="Pacific/Apia"),
                ["2011-12-29T10:00Z", "2011-12-30T09:59Z", "2011-12-30T10:00Z", "2011-12-31T09:59Z"],
                [0, 2],
                id="a day that is left out",
            ),
            pytest.param(
                rc.Every("month", day=31),
                ["2028-02-28T23:59Z", "2028-02-29T00:00Z", "2028-03-30T23:59Z", "2028-03-31T00:00Z"],
                [0, 1, 3],
                id="a leap day",
            ),
            pytest.param(
                rc.Every("day"),
                ["0001-01-01T00:00Z", "0001-01-01T23:59Z", "0001-01-02T00:00Z"],
                [0, 2],
                id="the year 1",
            ),
        ],
    )
    def test_calendar_periods(self, engine, every, times, through):
        arriving = [rc.Event(f"{at_}", "/s", time=datetime.fromisoformat(time)) for at_, time in enumerate(times)]
        assert handed(engine, graded(rc.AllMatches(at_most=rc.Cap(1, every))), *arriving) == list(map(str, through))

    @pytest.mark.parametrize("kernels", [False, True])
    def test_the_last_day_of_the_year_9999_has_no_end(self, kernels):
        hub = rc.Hub(kernels=kernels)
        hub.subscribe("ana", "true", deliver=rc.AllMatches(at_most=rc.Cap(1, rc.Every("day"))))
        times = ("9999-12-30T23:59Z", "9999-12-31T00:00Z", "9999-12-31T23:59Z")
        found = [hub.publish(rc.Event(time, "/s"), now=datetime.fromisoformat(time)) for time in times]
        assert [len(notes) for notes in found] == [1, 1, 0]


class TestPer:
    def test_values_count_apart_and_1_equals_1_0_but_not_true(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(1, TEN, per="firm")))
        arriving = [
            event(f"{number}", time=number, firm=firm) for number, firm in enumerate((1, 1.0, True, "1", -0.0, 0))
        ]
        assert handed(engine, who, *arriving) == ["0", "2", "3", "4"]

    def test_missing_values_and_lists_count_together(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(1, TEN, per="firm")))
        arriving = [event("0", time=0), event("1", time=1, firm=["a"]), event("2", time=2, firm=None)]
        assert handed(engine, who, *arriving) == ["0"]

    def test_an_attribute_of_the_envelope(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(1, TEN, per="source")))
        arriving = [event(f"{number}", time=number, source=source) for number, source in enumerate("aab")]
        assert handed(engine, who, *arriving) == ["0", "2"]

    def test_values_are_forgotten_when_their_period_is_over(self):
        hub = rc.Hub()
        hub.subscribe("ana", "true", deliver=rc.AllMatches(at_most=rc.Cap(1, TEN, per="firm")))
        for number in range(100):
            hub.publish(event(f"{number}", firm=number), now=at(number))
        (record,) = hub._core.serving.records()
        assert len(record.queues[0].caps[0].counts) == 10


class TestMuting:
    def test_nothing_is_handed_over_before_that_time_nor_later(self, engine):
        assert handed(engine, graded(rc.AllMatches(), muted_until=at(2)), *stream(0, 1.999999, 2, 3)) == ["2", "3"]

    def test_what_is_muted_counts_in_no_cap(self, engine):
        who = graded(rc.AllMatches(at_most=rc.Cap(1, TEN)), muted_until=at(2))
        assert handed(engine, who, *stream(0, 1, 2, 3)) == ["2"]

    def test_a_digest_is_muted_when_it_is_due(self, engine):
        who = graded(rc.AllMatches(), muted_until=at(11), notify=rc.Digest(TEN))
        assert handed(engine, who, *stream(1, 2, 10, 12)) == ["10", "12"]


def capped_hub(caps=(), **settings):
    hub = rc.Hub()
    hub.subscribe("ana", "true", deliver=rc.AllMatches(at_most=caps), **settings)
    return hub


def put(hub, *times, **attributes):
    return [note.event.id for one in stream(*times, **attributes) for note in hub.publish(one, now=one.time)]


class TestChanges:
    def test_a_cap_that_stays_keeps_its_count_and_another_count_acts_at_once(self):
        hub = capped_hub(rc.Cap(2, TEN))
        assert put(hub, 0) == ["0"]
        hub.update("ana", deliver=rc.AllMatches(at_most=rc.Cap(3, TEN)))
        assert put(hub, 1, 2, 3) == ["1", "2"]
        hub.update("ana", deliver=rc.AllMatches(at_most=rc.Cap(1, TEN)))
        assert put(hub, 4, 10, 11) == ["10"]

    def test_a_new_cap_begins_at_0(self):
        hub = capped_hub(rc.Cap(2, TEN))
        assert put(hub, 0, 1) == ["0", "1"]
        hub.update("ana", deliver=rc.AllMatches(at_most=[rc.Cap(1, TEN, per="firm"), rc.Cap(1, 2 * TEN)]))
        assert put(hub, 2, 3) == ["2"]

    def test_another_policy_with_the_same_cap_goes_on_counting(self):
        hub = capped_hub(rc.Cap(2, TEN))
        assert put(hub, 0, 1) == ["0", "1"]
        hub.update("ana", deliver=rc.Sliding(5, 5, at_most=rc.Cap(3, TEN)))
        assert put(hub, 2, 3) == ["2"]

    def test_subscribing_again_starts_empty(self):
        hub = capped_hub(rc.Cap(1, TEN))
        put(hub, 0, 1)
        hub.unsubscribe("ana")
        hub.subscribe("ana", "true", deliver=rc.AllMatches(at_most=rc.Cap(1, TEN)))
        assert put(hub, 2) == ["2"]
        assert hub.withheld == {}

    def test_muting_for_a_while_and_not_any_more(self):
        hub = capped_hub()
        hub.update("ana", muted_until=at(100))
        assert put(hub, 0, 1) == []
        hub.update("ana", muted_until=None)
        assert put(hub, 2) == ["2"]
        assert hub.withheld == {"ana": Withheld(muted=2)}


class TestTelling:
    def test_what_is_withheld_is_counted(self):
        hub = capped_hub(rc.Cap(1, TEN), muted_until=at(1))
        hub.subscribe("rui", "true")
        assert len(put(hub, 0, 1, 2, 3)) == 5
        assert hub.withheld == {"ana": Withheld(capped=2, muted=1)}

    def test_explain_says_which_cap_is_used_up(self):
        hub = capped_hub([rc.Cap(1, rc.Every("day"), per="firm"), rc.Cap(5, TEN)])
        put(hub, 0, firm="a")
        found = hub.explain(event("1", firm="a"), "ana", now=at(1))
        assert found.verdict is Verdict.CAPPED
        assert not found.delivered
        assert "capped: 1 of today's 1 per firm delivered, until 2026-01-02T00:00:00Z" in str(found)
        assert hub.explain(event("1", firm="b"), "ana", now=at(1)).delivered
        put(hub, 1, 2, 3, 4, firm=0)
        assert put(hub, 5, 6, 7, 8, 9) == ["5"]
        assert hub.explain(event("x", firm="z"), "ana", now=at(10)).delivered

    def test_explain_counts_what_is_delivered_before_at_the_same_instant(self):
        """The event and one that waited for a place enter together, and only one more may be handed over."""
        hub = rc.Hub()
        wanted = {f"x = {x}": x / 10 for x in range(11)}
        hub.subscribe("ana", wanted, deliver=rc.Sliding(2, 5, at_most=rc.Cap(3, TEN)))
        for one in (event("a", 0, 5, x=9), event("b", 1, 5, x=8), event("c", 2, x=7)):
            hub.publish(one, now=one.time)
        arriving = event("d", x=1)
        assert hub.explain(arriving, "ana", now=at(6)).verdict is Verdict.CAPPED
        assert [note.event.id for note in hub.publish(arriving, now=at(6))] == ["c"]

    def test_explain_says_that_the_subscriber_is_muted(self):
        found = capped_hub(muted_until=at(9)).explain(event("1"), "ana", now=at(1))
        assert found.verdict is Verdict.MUTED
        assert "muted, until 2026-01-01T00:00:09Z" in str(found)

    def test_explain_says_what_an_event_that_waits_has_still_before_it(self):
        """Whether a subscriber is muted is asked at the instant of the handing over, and so are caps."""
        hub = rc.Hub()
        half, digest = rc.Periodic(2, TEN / 2, at_most=rc.Cap(1, TEN)), rc.Digest(TEN)
        hub.subscribe("ana", "true", deliver=half, notify=digest, muted_until=at(10))
        words = str(hub.explain(event("1"), "ana", now=at(1))).splitlines()[-1]
        assert words.endswith(
            "it waits for the end of the period (place 1, the best 2 are delivered at 2026-01-01T00:00:05Z); that is "
            "in the digest of 2026-01-01T00:00:10Z; at most 1 every 10s are handed over"
        )
        hub.update("ana", muted_until=at(11))
        assert hub.explain(event("1"), "ana", now=at(1)).verdict is Verdict.MUTED
        hub.update("ana", deliver=rc.AllMatches(at_most=()), muted_until=None)
        words = str(hub.explain(event("1"), "ana", now=at(10))).splitlines()[-1]
        assert words == "ana: not handed over now: with rank 1 it is in the digest of 2026-01-01T00:00:20Z"


class TestState:
    @pytest.mark.parametrize("sync", ["full", "normal"])
    def test_counts_outlast_a_hub_that_is_killed_and_one_that_is_closed(self, tmp_path, sync):
        path, cap = tmp_path / "ana.hub", rc.AllMatches(at_most=[rc.Cap(2, TEN), rc.Cap(1, TEN, per="firm")])
        hub = rc.Hub(path=path, sync=sync)
        hub.subscribe("ana", "true", deliver=cap, muted_until=at(1))
        assert put(hub, 0, 1, firm="a") == ["1"]
        hub._journal.abandon()  # as a kill leaves it
        hub = rc.Hub(path=path, sync=sync)
        assert put(hub, 2, firm="a") == []
        hub.close()
        hub = rc.Hub(path=path, sync=sync)
        assert hub.withheld == {"ana": Withheld(capped=1, muted=1)}
        assert put(hub, 3, 4, firm="b") == ["3"]

    def test_the_counts_of_calendars_and_values_come_back_from_their_written_form(self):
        caps = [rc.Cap(2, rc.Every("week", zone="Europe/Berlin")), rc.Cap(1, TEN, per="firm")]
        hub = capped_hub(caps)
        put(hub, 0, 1, firm=2**60 + 1)
        record = hub._core.serving.records()[0]
        assert decode(encode(record, type(record), shared=True), type(record), "record", shared=True) == record


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("made", "message"),
        [
            (lambda: rc.Cap(0, TEN), "count: 0 is not a whole number of at least 1"),
            (lambda: rc.Cap(1, timedelta(0)), "every: .* is not a period"),
            (lambda: rc.Cap(1, TEN, per=""), "per: "),
            (lambda: rc.Continuous(3, at_most=5), "at_most: 5 is not a Cap"),
            (lambda: rc.AllMatches(at_most=[rc.Cap(1, TEN), rc.Cap(2, TEN)]), "two caps count the same"),
            (lambda: rc.AllMatches(at_most=[rc.Cap(1, seconds(s)) for s in range(1, 18)]), "at most 16"),
            (lambda: graded(rc.Sliding(1, 2, at_most=rc.Cap(1, TEN)), notify=OnDemand()), "on demand is not capped"),
            (lambda: graded(rc.AllMatches(), muted_until="tomorrow"), "muted_until"),
        ],
    )
    def test_caps_that_cannot_be(self, made, message):
        with pytest.raises(InvalidSubscriptionError, match=message):
            made()

    def test_caps_that_are_the_same_in_the_zone_of_the_subscriber(self):
        caps = [rc.Cap(1, rc.Every("day")), rc.Cap(2, rc.Every("day", zone="Europe/Berlin"))]
        graded(rc.AllMatches(at_most=caps))
        with pytest.raises(InvalidSubscriptionError, match="two caps count the same"):
            graded(rc.AllMatches(at_most=caps), zone="Europe/Berlin")

    def test_an_attribute_that_a_schema_does_not_know(self):
        hub = rc.Hub(schema=rc.Schema({"firm": rc.ValueType.STRING}))
        with pytest.raises(UnknownAttributeError, match="frim"):
            hub.subscribe("ana", "true", deliver=rc.AllMatches(at_most=rc.Cap(1, TEN, per="frim")))

    def test_a_muted_list_can_be_read(self):
        hub = rc.Hub()
        hub.subscribe("ana", "true", deliver=rc.Sliding(1, 2), notify=OnDemand(), muted_until=at(99))
        hub.publish(event("1"), now=at(0))
        assert [note.event.id for note in hub.read("ana", now=at(0))] == ["1"]


@pytest.mark.parametrize(
    "forget",
    [
        lambda one: structs.replace(one, deliver=replace(one.deliver, at_most=())),
        lambda one: structs.replace(one, deliver=replace(one.deliver, at_most=(rc.Cap(1, TEN),))),
        lambda one: structs.replace(one, muted_until=None),
    ],
    ids=["caps", "per", "muting"],
)
def test_the_suite_notices_an_engine_that_forgets_caps_or_muting(forget):
    class Forgetful:
        def deliveries(self, case):
            return HubEngine().deliveries(Case(tuple(map(forget, case.subscribers)), case.events))

    who = graded(rc.AllMatches(at_most=rc.Cap(1, TEN, per="firm")), muted_until=at(1))
    arriving = [event(f"{time}", time=time, firm=time % 2) for time in range(6)]
    check(HubEngine(), Case((who,), tuple(arriving)))
    with pytest.raises(AssertionError, match="differs from the oracle"):
        check(Forgetful(), Case((who,), tuple(arriving)))
