"""The commands as a user calls them: output, errors and exit codes. What docs/command-line.md shows is run there."""

import json
import re
import shlex
from pathlib import Path

import pytest

from command_line import lines, printed, run
from rankcast.matching.index import Reader
from rankcast.model.cloudevents import event_from_json
from rankcast.model.errors import Problem
from rankcast.samples.feeds import FEEDS, flats
from rankcast.storage.events.files import read_events
from rankcast.storage.subscribers.files import load_subscribers

COMMANDS = ("match", "explain", "estimate", "generate", "check", "cover", "place", "demo", "warm-up", "version")

PEOPLE = """\
version: 1
subscribers:
  - id: ana
    deliver: {policy: sliding, k: 1, window: 10}
    subscriptions:
      - {id: fair, filter: "city = 'Porto' and rent between 500 and 900", rank: 0.9}
      - {id: large, filter: "city = 'Porto' and rooms >= 3", rank: 0.6}
  - id: rui
    subscriptions:
      - {id: cheap, filter: "rent < 600"}
"""

EVENTS = [
    {"id": "a", "time": "2026-03-01T09:00:00Z", "city": "Porto", "rent": 700, "rooms": 2},
    {"id": "b", "time": "2026-03-01T09:01:00Z", "city": "Porto", "rent": 1200, "rooms": 4},
    {"id": "c", "time": "2026-03-01T09:02:00Z", "city": "Braga", "rent": 400, "rooms": 1},
]


def write_events(path, *documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.yaml"
    path.write_text(PEOPLE)
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    write_events(path, *EVENTS)
    return path


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_shows_an_example_and_has_json(self, command):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert f"Example: rankcast {command}" in result.stdout
        assert "--json" in result.stdout

    def test_the_list_of_commands_is_the_answer_to_no_arguments(self):
        result = run()
        assert all(command in result.output for command in COMMANDS)

    @pytest.mark.parametrize("arguments", [["version"], ["--version"]])
    def test_the_version_is_that_of_the_package(self, arguments):
        result = run(*arguments)
        assert result.exit_code == 0
        assert result.stdout.startswith("rankcast 0.")
        (told,) = lines(run("version", "--json").stdout)
        assert result.stdout == f"rankcast {told['version']} (zones of tzdata {told['tzdata']})\n"

    @pytest.mark.parametrize("words", ["match", "mach", "generate flats --events -1", "generate flats --subscribers 3"])
    def test_wrong_usage_has_exit_code_2(self, words):
        assert run(*words.split()).exit_code == 2


class TestMatch:
    def test_when_nobody_gets_anything_the_way_to_find_out_why_is_shown(self, people, tmp_path):
        untyped = tmp_path / "flats.csv"
        untyped.write_text("id,city,rent\n1,Porto,700\n")
        result = run("match", untyped, "--subscribers", people)
        assert "First notifications" not in result.stdout
        hint = result.stdout.splitlines()[-1]
        assert hint.startswith("nobody got anything; to see why: rankcast explain ")
        way = run(*shlex.split(hint.partition("rankcast ")[2]))
        assert "rent is '700', a string, not comparable with a number" in way.stdout

    def test_the_way_is_not_shown_to_those_who_asked_for_no_rows(self, people, events):
        assert "to see why" not in run("match", events, "--subscribers", people, "--limit", 0).stdout

    def test_of_a_list_that_nobody_reads_no_deliveries_are_counted(self, tmp_path, events):
        readers = tmp_path / "readers.yaml"
        readers.write_text(PEOPLE.replace("window: 10}\n", "window: 10}\n    notify: on_demand\n"))
        result = run("match", events, "--subscribers", readers)
        row = next(line for line in result.stdout.splitlines() if line.startswith("ana"))
        assert row.split()[-7:-5] == ["2", "-"]

    def test_what_caps_and_muting_withhold_is_told(self, tmp_path, events):
        capped = tmp_path / "capped.yaml"
        wanted = 'subscriptions: [{filter: "rent > 0"}]'
        capped.write_text(
            f"version: 1\nsubscribers:\n  - {{id: ana, {wanted}, deliver: {{policy: all, at_most: {{count: 1, "
            f"every: day}}}}}}\n  - {{id: rui, {wanted}, muted_until: 2026-03-01T09:01:00Z}}\n"
        )
        result = run("match", events, "--subscribers", capped)
        rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert [row for row in rows if row.startswith(("ana", "rui"))] == [
            "ana every match 3 1 1.000 -> 1.000 - 0 s",
            "rui every match 3 2 1.000 -> 1.000 1.00 0 s",
            "ana: every match, at most 1 every day at 00:00 UTC (2 capped)",
            "rui: every match, muted until 2026-03-01T09:01:00Z (1 muted)",
        ]
        assert "6 matches, 3 delivered, 2 capped, 1 muted, in" in result.stdout
        result = run("estimate", events, "--subscribers", capped, "--subscriber", "ana", "--at-most", "2/hour")
        rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert [row for row in rows if row[:2] in ("as", "wi", "at")] == [
            "as it is 3 1 1.0 1.000 1.000 2",
            "without caps 3 3 3.0 1.000 1.000 0",
            "at most 2/hour 3 2 2.0 1.000 1.000 1",
        ]
        for cap in ("5", "0/day", "5/fortnight"):
            result = run("estimate", events, "--subscribers", capped, "--subscriber", "ana", "--at-most", cap)
            assert f"--at-most: '{cap}' is not a count and a period such as 5/day" in result.stderr
        capped.write_text(f"{capped.read_text()}schema: {{attributes: {{rent: int}}}}\n")
        result = run("estimate", events, "--subscribers", capped, "--subscriber", "ana", "--at-most", "1/day/rnt")
        assert result.stderr == "unknown attribute 'rnt'; did you mean 'rent'?\n"

    def test_an_attribute_that_a_cap_counts_by_and_no_event_has_is_a_warning(self, people, events):
        caps = "at_most: [{count: 1, every: day, per: landlord}, {count: 5, every: day, per: city}]"
        people.write_text(PEOPLE.replace("window: 10}", f"window: 10, {caps}}}"))
        result = run("match", events, "--subscribers", people, "--json")
        expected = "subscriber 'ana': deliver: no event has 'landlord', which a cap or a diversity names"
        assert result.stderr == f"{people}: warning: {expected}\n"
        assert result.exit_code == 0

    def test_counts_matches_and_deliveries_with_their_mean_ranks(self, people, events):
        result = run("match", events, "--subscribers", people)
        assert result.exit_code == 0
        assert result.stderr == ""
        rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert "ana the best 1 of the last 10 2 1 0.750 -> 0.900 - 0 s" in rows
        assert "rui every match 1 1 1.000 -> 1.000 - 0 s" in rows
        assert "3 events, 2 subscribers, 3 subscriptions: 3 matches, 2 delivered" in result.stdout

    def test_an_event_is_for_the_k_best_of_those_who_want_it_and_for_nobody_when_it_is_not_advertised(
        self, people, events, tmp_path
    ):
        own = tmp_path / "own.yaml"
        flats = "{id: flats, source: events.jsonl, k: 1, ranking: preference, space: rooms > 1}"
        people.write_text(PEOPLE.replace("rent < 600", "rent < 900") + f"advertisements: [{flats}]\n")
        result = run("match", events, "--subscribers", people, "--json")
        assert [(note["subscriber"], note["event"]["id"]) for note in lines(result.stdout)] == [
            ("rui", "a"),
            ("ana", "b"),
        ]
        assert result.stderr == f"{events}: event ('events.jsonl', 'c') is not what 'flats' advertises\n"
        assert result.exit_code == 1
        assert result.stderr in run("check", people, events).stdout
        why = run("explain", f"{events}#a", "-s", people, "-i", "ana").stdout
        assert why.endswith("ana: not delivered: the subscriber is 2nd, and it was for the best\n")
        (told,) = printed("explain", f"{events}#a", "-s", people, "-i", "ana")
        assert (told["verdict"], told["standing"]) == ("not among those it is for", {"place": 2, "k": 1})
        own.write_text("version: 1\nadvertisements: [{id: all, source: events.jsonl, k: 2}]\n")
        both = run("match", events, "--subscribers", people, "-a", own, "--json")
        assert "is advertised by 'flats', 'all'; name one" in both.stderr
        own.write_text("version: 1\nadvertisements: [{id: all, source: events, k: 2}]\n")
        people.write_text(PEOPLE)
        unseen = run("match", events, "--subscribers", people, "-a", own, "--json")
        assert (
            "warning: advertisement 'all': no event is of its source 'events'; others are of 'events.jsonl'"
            in unseen.stderr
        )
        assert unseen.exit_code == 0

    def test_tells_how_diverse_and_how_fresh_deliveries_are(self, tmp_path):
        people, events = tmp_path / "people.yaml", tmp_path / "events.jsonl"
        hourly = "{policy: periodic, k: 2, period: 1h}"
        people.write_text(
            f"version: 1\nsubscribers:\n- {{id: eva, deliver: {hourly}, subscriptions: [{{filter: rent < 9}}]}}\n"
        )
        times = ((n, f"2026-01-01T00:{n}0:00Z") for n in range(1, 4))
        write_events(events, *({"id": str(n), "time": time, "rent": n // 2, "rooms": 1} for n, time in times))
        result = run("match", events, "--subscribers", people)
        assert result.stderr == ""
        (row,) = [line.split() for line in result.stdout.splitlines() if line.startswith("eva  ")][:1]
        # Rents 1 and 1, rooms 1: copies of each other. Published at 0:20 and 0:30, delivered at 1:00.
        assert row[-3:] == ["0.00", "35.0", "min"]

    def test_of_diverse_lists_a_near_copy_gives_way_to_a_lower_rank(self, people, events):
        policy = "{policy: periodic, k: 2, period: 1h, diversity: {weights: {genre: 1}}}"
        wanted = "[{filter: rating >= 8, rank: 1.0}, {filter: rating >= 6, rank: 0.8}]"
        people.write_text(f"version: 1\nsubscribers: [{{id: ana, deliver: {policy}, subscriptions: {wanted}}}]")
        films = [("1", "war", 8), ("2", "war", 9), ("3", "comedy", 6)]
        times = {name: f"2026-01-01T00:0{name}:00Z" for name, _, _ in films}
        write_events(
            events, *({"id": name, "time": times[name], "genre": genre, "rating": r} for name, genre, r in films)
        )
        notes = printed("match", events, "--subscribers", people)
        assert [(note["event"]["id"], note["rank"]) for note in notes] == [("1", 1.0), ("3", 0.8)]
        assert {note["time"] for note in notes} == {"2026-01-01T01:00:00Z"}
        report = run("match", events, "--subscribers", people, columns=120).stdout
        assert "the diverse best 2 every 1h" in " ".join(report.split())

    def test_what_does_not_fit_into_the_table_is_told_below_it(self, people, events):
        policy = "deliver: {policy: topkw, k: 1, window: 10000}\n    notify: {every: 90m}"
        people.write_text(PEOPLE.replace("deliver: {policy: sliding, k: 1, window: 10}", policy))
        wide = run("match", events, "--subscribers", people, columns=120).stdout.splitlines()
        assert any(
            line.startswith("ana          the best 1 at any time within 10000 events         2") for line in wide
        )
        narrow = run("match", events, "--subscribers", people, columns=80).stdout.splitlines()
        assert any(line.startswith("ana                2           1   0.750 -> 0.900") for line in narrow)
        full = "ana: the best 1 at any time within 10000 events, in a digest every 90m"
        assert full in wide
        assert [line for line in narrow if ":" in line and line[:3] in ("ana", "rui")] == [full, "rui: every match"]

    def test_first_notifications_have_the_time_at_which_they_are_handed_over(self, people, events):
        people.write_text(PEOPLE.replace("window: 10}", "window: 10}\n    notify: {every: 1h}"))
        _, _, first = run("match", events, "--subscribers", people).stdout.partition("First notifications")
        assert [line.split()[:3] for line in first.splitlines() if line.startswith("2026")] == [
            ["2026-03-01", "09:02:00", "rui"],
            ["2026-03-01", "10:00:00", "ana"],
        ]

    def test_json_is_one_line_per_notification_and_nothing_else(self, people, events):
        found = printed("match", events, "--subscribers", people)
        assert [(note["subscriber"], note["event"]["id"], note["rank"], note["matched"]) for note in found] == [
            ("ana", "a", 0.9, ["fair"]),
            ("rui", "c", 1.0, ["cheap"]),
        ]
        assert event_from_json(found[0]["event"]).attributes["rent"] == 700
        assert found[0]["time"] == "2026-03-01T09:00:00Z"

    def test_subscribers_may_rank_by_relevance_with_decay_and_refresh_times(self, tmp_path):
        people, events = tmp_path / "people.yaml", tmp_path / "flats.jsonl"
        people.write_text(
            "version: 1\nsubscribers:\n"
            "- {id: eva, deliver: {policy: topkw, k: 1, window: 1d}, subscriptions: [{filter: true, relevance: "
            "{function: ideal_point, targets: {rooms: 3, rent: {value: 700, scale: 100}}}}]}\n"
            "- {id: noa, deliver: {policy: continuous, k: 1}, decay: {half_life: 1h}, subscriptions: [{filter: true, "
            "rank: 0.5, refresh: 1d, relevance: {function: cosine, attribute: looks, vector: [0, 2]}}]}\n"
        )
        flats = [(0, 3, 800, [0, 1]), (1, 3, 900, [1, 0]), (3, 4, 700, [1, 0]), (4, 3, 750, "bright")]
        names = ("id", "time", "rooms", "rent", "looks")
        rows = ((str(hour), f"2026-03-01T0{hour}:00:00Z", *values) for hour, *values in flats)
        write_events(events, *(dict(zip(names, row, strict=True)) for row in rows))
        found = printed("match", events, "--subscribers", people)
        assert sorted((note["subscriber"], note["event"]["id"], note["rank"]) for note in found) == [
            ("eva", "0", -1.0),
            ("eva", "3", -1.0),
            ("eva", "4", -0.5),
            ("noa", "0", 0.5),
            ("noa", "1", 0.25),
            ("noa", "3", 0.25),
        ]

    def test_out_gets_the_lines_instead_of_standard_output(self, people, events, tmp_path):
        out = tmp_path / "notes.jsonl"
        result = run("match", events, "--subscribers", people, "--json", "--out", out)
        assert result.stdout == ""
        assert [note["event"]["id"] for note in lines(out.read_text())] == ["a", "c"]

    def test_what_is_bad_is_reported_with_its_place_and_the_rest_is_used(self, people, events):
        events.write_text(events.read_text() + '{"id": "d", "rent":\n{"id": "e", "rent": 100}\n')
        result = run("match", events, "--subscribers", people, "--json")
        assert result.exit_code == 1
        assert result.stderr.startswith(f"{events}:4: ")
        assert [note["event"]["id"] for note in lines(result.stdout)] == ["a", "c", "e"]
        people.write_text(PEOPLE.replace("rent < 600", "rent <"))
        result = run("match", events, "--subscribers", people, "--json")
        assert result.exit_code == 1
        assert result.stderr.startswith(f"{people}:10: ")
        assert {note["subscriber"] for note in lines(result.stdout)} == {"ana"}

    def test_periods_still_open_when_the_file_ends_are_completed(self, people, events):
        people.write_text(PEOPLE.replace("{policy: sliding, k: 1, window: 10}", "{policy: periodic, k: 1, period: 1h}"))
        result = run("match", events, "--subscribers", people, "--json")
        assert result.exit_code == 0
        assert "ana" in {note["subscriber"] for note in lines(result.stdout)}

    def test_of_many_problems_the_first_are_shown_and_the_others_counted(self, people, events):
        events.write_text("{\n" * 50)
        result = run("match", events, "--subscribers", people)
        assert len(result.stderr.splitlines()) == 21
        assert "30 more problems" in result.stderr

    def test_events_are_put_in_order_or_with_a_lateness_as_far_as_it_goes(self, people, events):
        in_order = run("match", events, "--subscribers", people, "--json").stdout
        write_events(events, *reversed(EVENTS))
        for lateness in ((), ("--lateness", "1d")):
            result = run("match", events, "--subscribers", people, "--json", *lateness)
            assert (result.exit_code, result.stderr) == (0, "")
            assert sorted(result.stdout.splitlines()) == sorted(in_order.splitlines())
        result = run("match", events, "--subscribers", people, "--json", "--lateness", "0s")
        assert result.exit_code == 0
        assert "warning: 2 events came later than allowed and changed nothing" in result.stderr
        assert {note["event"]["id"] for note in lines(result.stdout)} <= {EVENTS[-1]["id"]}

    def test_events_without_a_time_have_that_of_their_arrival_and_are_counted_once(self, people, events):
        write_events(events, *({name: event[name] for name in event.keys() - {"time"}} for event in EVENTS))
        told = run("match", events, "--subscribers", people, "--json", "--now", "2026-03-01T08:00:00Z")
        assert f"{len(EVENTS)} events without a time; taken to be of 2026-03-01T08:00:00Z" in told.stderr
        assert {note["event"]["time"] for note in lines(told.stdout)} == {"2026-03-01T08:00:00Z"}
        write_events(events, *({name: event[name] for name in event.keys() - {"time"}} for event in reversed(EVENTS)))
        again = run("match", events, "--subscribers", people, "--json", "--now", "2026-03-01T08:00:00Z")
        assert (told.exit_code, again.stdout) == (0, told.stdout)

    def test_a_k_that_limited_little_because_of_ties_is_a_warning(self, people, events):
        """Relevance gives all the same rank here, which what is stated does not tell."""
        times = ((f"{minute}", f"2026-03-01T09:{minute:02}:00Z") for minute in range(20))
        write_events(events, *(EVENTS[0] | {"id": name, "time": time} for name, time in times))
        closeness = "relevance: {function: closeness, targets: {rooms: {value: 4, scale: 4}}}"
        text = f"subscriptions: [{{filter: rent > 1, {closeness}}}]}}\n"
        text = "".join(
            f"- {{id: {name}, deliver: {{policy: sliding, k: 3, window: 10%s}}, {text}" for name in ("ana", "b")
        )
        text = f"version: 1\nsubscribers:\n{text}"
        people.write_text(text.replace("%s", ""))
        assert run("match", events, "--subscribers", people).stderr.strip() == (
            f"{people}: warning: subscriber 'ana': deliver: 20 of 20 matches were delivered, 19 of them with a rank "
            "that one before had, so k limited little (and so for 1 more subscriber); what helps is ties: keep, "
            "ranks that differ, or a relevance"
        )
        people.write_text(text.replace("%s", ", ties: keep"))
        found = run("match", events, "--subscribers", people)
        assert found.stderr == ""
        assert "40 matches, 12 delivered" in found.stdout

    @pytest.mark.parametrize("command", ["match", "check"])
    def test_stated_ranks_that_make_k_meaningless_are_a_warning_before_anything_is_delivered(
        self, people, events, command
    ):
        people.write_text(PEOPLE.replace("rank: 0.6", "rank: 0.9"))
        files = [events, "--subscribers", people] if command == "match" else [people]
        found = run(command, *files)
        assert found.exit_code == 0
        assert "people.yaml:4: warning: subscriber 'ana': deliver: all matches have the same" in found.output

    def test_a_lateness_that_is_no_duration_is_refused(self, people, events):
        result = run("match", events, "--subscribers", people, "--lateness", "soon")
        assert result.exit_code == 1
        assert "'soon' is not a duration such as 90s" in result.stderr

    def test_each_event_is_matched_once(self, people, events, monkeypatch):
        calls = []
        match = Reader.match_one
        monkeypatch.setattr(Reader, "match_one", lambda self, event: calls.append(event["id"]) or match(self, event))
        assert run("match", events, "--subscribers", people).exit_code == 0
        assert [name for name in calls if name in "abc"] == ["a", "b", "c"]

    def test_an_empty_file_is_fine(self, people, events):
        events.write_text("")
        result = run("match", events, "--subscribers", people)
        assert result.exit_code == 0
        assert "0 events" in result.stdout

    def test_text_from_files_can_neither_drive_the_terminal_nor_be_markup(self, people, events):
        write_events(events, {"id": "[bold]x[/]", "rent": 1, "note": "\x1b[31mred\x07"})
        result = run("match", events, "--subscribers", people)
        assert "[bold]x[/]: rent 1, note \\x1b[31mred\\x07" in result.stdout


class TestExplain:
    def test_what_becomes_of_an_event_by_the_end_of_its_file_is_told_where_it_depends_on_that(self, people, events):
        hourly = "deliver: {policy: periodic, k: 1, period: 1h, at_most: {count: 1, every: day}}"
        people.write_text(PEOPLE.replace("deliver: {policy: sliding, k: 1, window: 10}", hourly))
        write_events(events, *EVENTS, EVENTS[0] | {"id": "d", "time": "2026-03-01T10:00:00Z"})
        asked = {name: ("explain", f"{events}#{name}", "-s", people, "-i", "ana") for name in "abcd"}
        ends = {name: run(*words).stdout.splitlines()[-1] for name, words in asked.items()}
        assert ends["a"] == "by the end of the file: handed over at 2026-03-01T10:00:00Z"
        assert ends["b"] == ends["d"] == "by the end of the file: not handed over"
        assert ends["c"] == "ana: not delivered: no subscription matches"
        found = {name: printed(*words)[0].get("by_the_end_of_the_file") for name, words in asked.items()}
        assert found == {"a": ["2026-03-01T10:00:00Z"], "b": [], "c": None, "d": []}

    def test_the_events_before_it_in_the_file_come_first(self, people, events):
        (second,), (alone,) = (
            printed("explain", event, "--subscribers", people, "--subscriber", "ana")
            for event in (f"{events}#b", json.dumps(EVENTS[1]))
        )
        assert (second["rank"], second["delivered"]) == (0.6, False)
        assert (alone["rank"], alone["delivered"]) == (0.6, True)

    @pytest.mark.parametrize(
        ("text", "name", "rent"),
        [
            (None, "b", 1200),
            (None, "2", 1200),
            ('{"id": "x", "rent": 1}\n{"id": "1", "rent": 2}\n', "1", 2),  # an id goes before a number
            ('{"id": "x", "rent": 1}\n{"id": "y#2", "rent": 2}\n', "y#2", 2),
        ],
    )
    def test_an_event_of_a_file_is_named_by_id_or_by_number(self, people, events, text, name, rent):
        folder = events.parent / "h#1"
        folder.mkdir()
        (folder / "a.jsonl").write_text(text or events.read_text())
        (outcome,) = printed("explain", f"{folder}#{name}", "--subscribers", people, "--subscriber", "rui")
        assert outcome["event"]["data"]["rent"] == rent

    def test_json_has_the_verdict_on_every_constraint(self, people):
        (outcome,) = printed("explain", '{"rent": 700}', "-s", people, "-i", "ana", "--subscription", "fair")
        assert outcome["rank"] is None
        (subscription,) = outcome["subscriptions"]
        assert subscription["id"] == "fair"
        assert [(part["constraint"], part["holds"]) for part in subscription["constraints"]] == [
            ("city = 'Porto'", "unknown"),
            ("rent between 500 and 900", "yes"),
        ]
        assert subscription["to_match"] == [{"attribute": "city", "needed": "city = 'Porto'"}]

    def test_a_file_with_one_event_needs_no_name(self, people, events):
        write_events(events, EVENTS[0])
        result = run("explain", events, "--subscribers", people, "--subscriber", "ana")
        assert "delivered with rank 0.9" in result.stdout

    @pytest.mark.parametrize(
        ("event", "subscriber", "expected"),
        [
            ("{events}", ["ana"], "there are several events; name one"),
            ("{events}#nine", ["ana"], "there is no event 'nine' among its 3 events"),
            ("{events}#9", ["ana"], "there is no event '9' among its 3 events"),
            ('{{"rent": ', ["ana"], "not JSON"),
            ('{{"rent": 1}}', ["eva"], "there is no subscriber 'eva'; the file has ana, rui"),
            ("{{}}", ["ana", "--subscription", "x"], "has no subscription 'x'; it has 'fair', 'large'"),
            ("nothing.jsonl", ["ana"], "nothing.jsonl: cannot be read: No such file or directory"),
        ],
    )
    def test_what_cannot_be_found_is_one_clear_message(self, people, events, event, subscriber, expected):
        result = run("explain", event.format(events=events), "--subscribers", people, "--subscriber", *subscriber)
        assert (result.exit_code, result.stdout) == (1, "")
        assert expected in result.stderr


def test_explaining_nothing_is_refused_in_words(people):
    for nothing in ("", " "):
        result = run("explain", nothing, "--subscribers", people, "--subscriber", "ana")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("EVENT is empty; expected a file with one event")


class TestGenerate:
    @pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet", "json", "jsonl.gz"])
    @pytest.mark.parametrize("feed", FEEDS.values(), ids=list(FEEDS))
    def test_what_is_written_reads_back_as_the_feed(self, tmp_path, feed, suffix):
        out = tmp_path / f"events.{suffix}"
        result = run("generate", feed.name, "--events", 40, "--seed", 5, "--out", out)
        assert result.exit_code == 0
        found = list(read_events(out, feed.schema))
        assert not [item for item in found if isinstance(item, Problem)]
        assert [event.attributes for event in found] == [event.attributes for event in feed.events(40, seed=5)]

    @pytest.mark.parametrize("suffix", ["yaml", "json"])
    @pytest.mark.parametrize("feed", FEEDS.values(), ids=list(FEEDS))
    def test_subscribers_read_back_with_their_schema(self, tmp_path, feed, suffix):
        people = tmp_path / f"people.{suffix}"
        run("generate", feed.name, "--out", tmp_path / "e.jsonl", "--subscribers", 30, "--subscribers-out", people)
        loaded = load_subscribers(people)
        assert loaded.problems == ()
        assert loaded.schema == feed.schema
        assert list(loaded.subscribers) == feed.subscribers(30)

    def test_a_dash_is_standard_output_with_nothing_but_events(self):
        result = run("generate", "flats", "--events", 5, "--out", "-")
        assert [event_from_json(event).id for event in lines(result.stdout)] == [f"flat-{n}" for n in range(1, 6)]
        assert result.stderr == ""

    def test_a_feed_can_start_at_any_time(self):
        result = run("generate", "trades", "--events", 1, "--start", "2030-01-02T10:00:00Z")
        assert lines(result.stdout)[0]["time"].startswith("2030-01-02T10:00:00.")

    def test_says_what_was_written(self, tmp_path):
        out, people = tmp_path / "m.jsonl", tmp_path / "p.yaml"
        result = run("generate", "movies", "--events", 1200, "--out", out)
        assert (result.stdout, result.stderr) == ("", f"1,200 events in {out}\n")
        both = ("--overwrite", "--events", 3, "--out", out, "--subscribers", 2, "--subscribers-out", people)
        files = {"events": {"file": str(out), "count": 3}, "subscribers": {"file": str(people), "count": 2}}
        assert printed("generate", "movies", *both) == [{"feed": "movies", "seed": 0, **files}]

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["houses"], "there is no feed 'houses'; expected one of flats, movies, trades"),
            (["flats", "--start", "noon"], "'noon' is not a time"),
            (["flats", "--start", "9999-12-31T23:59:59Z"], "--start 9999-12-31T23:59:59Z is too late"),
            (["flats", "--out", "x.txt"], "'.txt' is not that of an event file"),
            (["flats", "--out", "no/such/folder/x.jsonl"], "No such file or directory"),
        ],
    )
    def test_bad_arguments_are_one_clear_message(self, arguments, expected):
        result = run("generate", *arguments)
        assert result.exit_code == 1
        assert expected in result.stderr
        assert len(result.stderr.splitlines()) == 1


class TestCheck:
    def test_every_problem_has_its_line(self, people, events):
        people.write_text(PEOPLE.replace("rank: 0.9", "rank: 9").replace("rent < 600", "rent <"))
        events.write_text('{"id": "a"}\n[1]\n{"id": "a"}\n')
        result = run("check", people, events)
        assert result.exit_code == 1
        for file, places in ((people, (6, 10)), (events, (2, 3))):
            assert all(f"{file}:{line}: " in result.stdout for line in places)
            assert f"{file}: 2 errors" in result.stdout

    def test_warnings_alone_are_no_failure(self, people):
        people.write_text(PEOPLE.replace("rent < 600", "rent < 600 and rent > 700"))
        result = run("check", people, "--json")
        assert result.exit_code == 0
        assert [(problem["severity"], problem["line"]) for problem in lines(result.stdout)] == [("warning", 10)]

    def test_of_a_folder_its_files_are_checked(self, tmp_path):
        (tmp_path / "none").mkdir()
        for name, text in {"a.jsonl": '{"a": 1}\n', "b.csv": "a:int\nx\n", "c.txt": "", "_d.csv": "a:int\nx\n"}.items():
            (tmp_path / name).write_text(text)
        result = run("check", tmp_path)
        assert result.exit_code == 1
        assert f"{tmp_path / 'a.jsonl'}: ok" in result.stdout
        assert f"{tmp_path / 'b.csv'}: 1 error" in result.stdout
        assert "c.txt" not in result.stdout
        assert "_d.csv" not in result.stdout
        assert "a folder; expected a subscriber or event file" in run("check", tmp_path / "none").stdout

    def test_events_are_checked_against_the_schema_of_the_subscribers(self, people, events):
        people.write_text("version: 1\nschema: {attributes: {city: string, rent: string}}\nsubscribers: []\n")
        result = run("check", events, people)
        assert result.exit_code == 1
        assert f"{events}:1: rent: 700 is of type int; expected a value of type string" in result.stdout

    @pytest.mark.parametrize("name", ["missing.yaml", "missing.json", "missing.csv", "missing.parquet", "missing"])
    def test_a_missing_or_unknown_file_is_an_error(self, tmp_path, name):
        result = run("check", tmp_path / name, "--json")
        assert result.exit_code == 1
        assert [problem["file"] for problem in lines(result.stdout)] == [str(tmp_path / name)]

    @pytest.mark.parametrize("suffix", ["yaml", "json", "jsonl", "csv", "parquet", "jsonl.gz"])
    def test_a_directory_or_binary_rubbish_is_an_error(self, tmp_path, suffix):
        folder = tmp_path / f"folder.{suffix}"
        folder.mkdir()
        rubbish = tmp_path / f"rubbish.{suffix}"
        rubbish.write_bytes(bytes(range(256)) * 3)
        result = run("check", folder, rubbish, "--json")
        assert result.exit_code == 1
        assert {problem["file"] for problem in lines(result.stdout)} == {str(folder), str(rubbish)}


class TestDemo:
    def test_tells_what_people_got_and_why(self):
        result = run("demo", "--small", "--events", 250)
        assert result.exit_code == 0
        assert result.stderr == ""
        assert "\x1b" not in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 100
        assert "What they got" in result.stdout
        for story in ("ana got", "ana did not get", "bruno did not get"):
            assert f"Why {story} flat-" in result.stdout

    def test_json_is_the_notifications_of_the_named_people(self):
        found = printed("demo", "--small", "--events", 60)
        assert {note["subscriber"] for note in found} <= {"ana", "bruno", "carla", "diego", "elena", "fritz"}
        ids = {event.id for event in flats.events(60, seed=1)}
        assert all(note["event"]["id"] in ids for note in found)

    def test_one_event_is_enough(self):
        assert run("demo", "--small", "--events", 1).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "{rubbish}.jsonl", "--subscribers", "{people}"],
        ["match", "{rubbish}.csv", "--subscribers", "{people}"],
        ["match", "{folder}", "--subscribers", "{people}"],
        ["match", "{folder}.jsonl", "--subscribers", "{people}"],
        ["match", "missing.jsonl", "--subscribers", "{people}"],
        ["match", "{people}", "--subscribers", "{people}"],
        ["match", "{rubbish}.jsonl", "--subscribers", "{rubbish}.jsonl"],
        ["match", "{rubbish}.jsonl", "--subscribers", "{rubbish}.yaml"],
        ["match", "{rubbish}.jsonl", "--subscribers", "missing.yaml"],
        ["match", "{good}.jsonl", "--subscribers", "{people}", "--out", "{folder}"],
        ["explain", "{{" * 100_000, "--subscribers", "{people}", "--subscriber", "ana"],
        ["explain", "{rubbish}.jsonl#1", "--subscribers", "{people}", "--subscriber", "ana"],
        ["explain", "x" * 10_000, "--subscribers", "{people}", "--subscriber", "ana"],
        ["explain", '{{"rent": 1e999}}', "--subscribers", "{people}", "--subscriber", "ana"],
        ["explain", '{{"rent": 99999999999999999999}}', "--subscribers", "{people}", "--subscriber", "ana"],
        ["generate", "flats", "--out", "{folder}"],
        [
            "generate",
            "flats",
            "--out",
            "{good}.jsonl",
            "--overwrite",
            "--subscribers",
            "1",
            "--subscribers-out",
            "{folder}",
        ],
        ["check", "{rubbish}.yaml", "{rubbish}.jsonl", "{rubbish}.csv", "{folder}.jsonl"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_bad_input_is_a_message_and_exit_code_1_never_a_traceback(people, tmp_path, arguments):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "good.jsonl").write_text('{"rent": 1}\n')
    for suffix in ("jsonl", "csv", "yaml"):
        (tmp_path / f"rubbish.{suffix}").write_bytes(b"\xff\xfe\x00{]\n\x80,,,\n")
    names = {name: tmp_path / name for name in ("rubbish", "folder", "good")}
    result = run(*(argument.format(people=people, **names) for argument in arguments))
    assert isinstance(result.exception, SystemExit)  # any other exception would be a traceback
    assert result.exit_code == 1
    assert (result.stdout if arguments[0] == "check" else result.stderr).strip()


@pytest.fixture
def folder_of_inputs(tmp_path, people, events, monkeypatch):
    """Inputs in the working folder, and other names for them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "more.jsonl").write_bytes(events.read_bytes())
    (tmp_path / "soft.jsonl").symlink_to(events)
    (tmp_path / "hard.png").hardlink_to(people)
    (tmp_path / "deployed.yaml").write_text(f"publisher: [0, 0]\nsubscribers: {people.name}\nevents: {events.name}\n"
        "sites: [{at: [0, 0], subscribers: [ana]}]\nbrokers: [{name: a, at: [1, 1]}]\n")  # fmt: skip
    (tmp_path / "network.yaml").write_text("topology: {shape: chain, cores: 1, edges: 1}\n")
    return tmp_path


MATCH = "match {events} -s {people}"


@pytest.mark.parametrize(
    "command",
    [
        f"{MATCH} --out {{events}}",
        f"{MATCH} --out ./there/../{{events}}",
        f"{MATCH} --out soft.jsonl",
        f"{MATCH} --out {{people}}",
        f"{MATCH} -a network.yaml --out network.yaml",
        "match there -s {people} --out there/more.jsonl",
        "generate flats --out new.jsonl --subscribers 1 --subscribers-out ./new.jsonl",
        "cover {people} --plot hard.png",
        "place deployed.yaml --out deployed.yaml",
        "place deployed.yaml --out {people}",
        "place deployed.yaml --out {events}",
        "run --events {events} -s {people} --out found --metrics {people}",
        "run --events {events} -s {people} --out found --metrics {events}",
    ],
)
def test_what_a_command_reads_or_writes_is_never_written_over(folder_of_inputs, people, events, command):
    before = {path: path.read_bytes() for path in folder_of_inputs.rglob("*.*")}
    words = command.format(events=events.name, people=people.name).split()
    for more in ((), () if words[0] == "run" else ("--overwrite",)):
        refused = run(*words, *more)
        assert refused.exit_code == 1
        assert re.search("is '.*', which is read|is also where --out writes", refused.stderr)
    assert {path: path.read_bytes() for path in folder_of_inputs.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (f"{MATCH} --out", "old.jsonl"),
        ("generate flats --events 1 --out", "old.jsonl"),
        ("generate flats --events 1 --out new.jsonl --subscribers 1 --subscribers-out", "old.yaml"),
        ("cover {people} --strategy exact --plot", "old.png"),
        ("simulate network.yaml --plot", "old.svg"),
    ],
)
def test_an_old_file_is_replaced_only_when_asked(folder_of_inputs, people, events, command, out):
    words = [*command.format(events=events.name, people=people.name).split(), out]
    Path(out).write_text("precious")
    result = run(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"{words[-2]}: {out!r} exists; --overwrite replaces it\n"
    assert Path(out).read_text() == "precious"
    assert run(*words, "--overwrite").exit_code == 0
    assert Path(out).read_bytes() != b"precious"


class TestWarmUp:
    def test_it_tells_what_was_compiled_and_where_it_is(self):
        package, place = printed("warm-up", "ranking")
        assert package["package"] == "ranking"
        assert package["kernels"] >= 3
        assert list(Path(place["cache"]).glob("ranking.*.kernels"))

    def test_a_package_without_kernels_is_wrong_usage(self):
        result = run("warm-up", "storage")
        assert result.exit_code == 2
        assert "storage has no kernels" in result.stderr

    def test_an_extra_that_is_not_installed_is_left_out(self, monkeypatch):
        def missing(package):
            raise ModuleNotFoundError("No module named 'scipy'", name="scipy")

        monkeypatch.setattr("rankcast.cli.warm_up.warm_up", missing)
        result = run("warm-up", "placement")
        assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "placement: left out; scipy is not installed")

    def test_nowhere_to_keep_kernels_is_a_message_and_exit_code_1(self, monkeypatch):
        monkeypatch.setattr("rankcast.cli.warm_up.writable", lambda: None)
        result = run("warm-up")
        assert (result.exit_code, result.stdout) == (1, "")
        assert "NUMBA_CACHE_DIR" in result.stderr
