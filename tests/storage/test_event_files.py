"""Event files of every format: what is read, what is set aside and how it is reported, and what is written."""

import codecs
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.model.cloudevents import event_to_json
from rankcast.model.errors import InvalidEventError, InvalidFileError, Problem
from rankcast.model.events import DEFAULT_TYPE, Event, content_id
from rankcast.model.schema import Schema
from rankcast.model.values import ValueType
from rankcast.storage.check_file import check_file
from rankcast.storage.events import files as event_files
from rankcast.storage.events.files import EventFormat, read_events, write_events
from rankcast.storage.text_files import MAX_LINE_BYTES
from rankcast.testing.strategies import conforming_events, events, schemas, values

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def read(tmp_path):
    """Write bytes to a file of a name and read it: (events, problems)."""

    def read_bytes(name, content, schema=None, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return apart(read_events(path, schema, **options))

    return read_bytes


def apart(items):
    found = list(items)
    return tuple([item for item in found if isinstance(item, kind)] for kind in (Event, Problem))


def digest(**payload):
    """The id of an event that has only this payload."""
    return content_id({"type": DEFAULT_TYPE}, payload)


def payloads(found):
    return [event.data for event in found]


def line_and_message(problems):
    (problem,) = problems
    return problem.line, problem.message


class TestJsonLines:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ('{"n": 1}\n\n{"n": 2}\r\n', [(digest(n=1), "x.jsonl", {"n": 1}), (digest(n=2), "x.jsonl", {"n": 2})]),
            ('\n{"n": 1}\n', [(digest(n=1), "x.jsonl", {"n": 1})]),
            ('{"id": "a", "source": "/x"}', [("a", "/x", {})]),
            ('{"id": 17}', [("17", "x.jsonl", {})]),
            ('\ufeff{"n": 1}\n', [(digest(n=1), "x.jsonl", {"n": 1})]),
            (
                '{"specversion": "1.0", "id": "1", "source": "/x", "type": "flat", "data": {"n": 5}}',
                [("1", "/x", {"n": 5})],
            ),
        ],
    )
    def test_a_line_has_its_own_id_and_source_or_a_digest_and_the_files_name(self, read, content, expected):
        for name in ("x.jsonl", "x.ndjson"):
            found, problems = read(name, content)
            expected_here = [(own, source.replace("x.jsonl", name), data) for own, source, data in expected]
            assert [(event.id, event.source, event.data or {}) for event in found] == expected_here
            assert problems == []
            assert all(event.attributes.keys() >= (event.data or {}).keys() for event in found)
            assert all(event.type == "flat" for event in found if '"flat"' in content)

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (b'{"rent": 5', "not JSON: Expecting ',' delimiter"),
            (b"rent = 5", "not JSON"),
            (b"[1, 2]", "is not a JSON object"),
            (b'{"rent": NaN}', "NaN is not a JSON number"),
            (b'{"rent": 9223372036854775808}', "rent: 9223372036854775808 does not fit a 64-bit integer"),
            (b'{"rent": 1e999}', "outside the range of float64"),
            (b'{"rent": 1, "rent": 2}', "the key 'rent' occurs twice"),
            (b'{"city": "Pap\xe9"}', "not UTF-8: byte 0xe9 at offset 13"),
            (b'{"city": "\\ud800"}', "half a surrogate pair"),
            (b'{"time": "yesterday"}', "time: 'yesterday' is not a time"),
            (b'{"id": ["x"]}', "id: ['x'] is not a non-empty string"),
            (b'{"specversion": "1.0", "id": "x"}', "required CloudEvents attribute missing: source, type"),
            (b"[" * 100_000, "nested too deep"),
            (b'{"a":' * 50 + b"1" + b"}" * 50, "nests more than 32 objects"),
        ],
    )
    def test_a_bad_line_is_set_aside_and_reading_goes_on(self, read, bad, message):
        found, problems = read("flats.jsonl", b'{"n": 1}\n' + bad + b'\n{"n": 3}\n')
        assert payloads(found) == [{"n": 1}, {"n": 3}]
        line, text = line_and_message(problems)
        assert line == 2
        assert message in text

    def test_a_truncated_last_line_is_named_as_such(self, read):
        found, problems = read("flats.jsonl", '{"n": 1}\n{"n": 2')
        assert payloads(found) == [{"n": 1}]
        line, message = line_and_message(problems)
        assert line == 2
        assert "is the file cut off?" in message
        assert "'{\"n\": 2'" in message

    @pytest.mark.parametrize("rest", [b'"}\n{"n": 3}\n', b""])
    def test_a_line_beyond_the_bound_is_skipped(self, read, rest):
        found, problems = read("flats.jsonl", b'{"n": 1}\n{"a": "' + b"x" * MAX_LINE_BYTES * (1 if rest else 2) + rest)
        assert payloads(found) == ([{"n": 1}, {"n": 3}] if rest else [{"n": 1}])
        assert line_and_message(problems) == (2, f"the line is longer than {MAX_LINE_BYTES:,} bytes; skipped")

    def test_a_second_event_with_one_identity_is_set_aside(self, read):
        found, problems = read("flats.jsonl", '{"id": "a", "n": 1}\n{"id": "a", "n": 2}\n{"id": "a", "source": "/x"}')
        assert [event.source for event in found] == ["flats.jsonl", "/x"]
        assert line_and_message(problems) == (2, "the event 'a' of source 'flats.jsonl' occurs before in this file")

    def test_an_event_without_an_id_that_comes_again_is_a_warning(self, read):
        found, problems = read("flats.jsonl", '{"n": 1, "m": {"o": 2}}\n{"m.o": 2, "n": 1, "x": null}\n{"n": 1}')
        assert [event.data for event in found] == [{"n": 1, "m": {"o": 2}}, {"n": 1}]
        assert line_and_message(problems) == (2, "the same event as one before: it has no id, and the same content")
        assert problems[0].warning

    def test_identities_are_remembered_up_to_a_bound(self, read, monkeypatch):
        monkeypatch.setattr(event_files, "MAX_IDENTITIES", 1)
        found, problems = read("flats.jsonl", '{"id": "a"}\n{"id": "b"}\n{"id": "b"}\n{"id": "a"}')
        assert [event.id for event in found] == ["a", "b", "b"]
        assert problems[0].line == 4


class TestJson:
    @pytest.mark.parametrize(
        ("content", "expected", "lines"),
        [
            ('[\n{"n": 1},\n{"n": 2}]', [1, 2], []),
            ('{\n"n":\n1}', [1], []),
            ('{"n": 1}\n{"n": 2}\n{"n":', [1, 2], [3]),
            ('[\n{"n": 1},\n{"n": 9223372036854775808},\n7,\n{"n": 4}]', [1, 4], [3, 4]),
            ("\n", [], []),
        ],
        ids=["list", "one object", "JSON lines", "bad elements", "empty"],
    )
    def test_a_document_is_a_list_an_object_or_json_lines(self, read, content, expected, lines):
        found, problems = read("flats.json", content)
        assert [(event.id, event.data["n"]) for event in found] == [(digest(n=n), n) for n in expected]
        assert [problem.line for problem in problems] == lines


class TestCsv:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "id,city:string,rent:int,posted:time,furnished:bool,score:float\n"
                "a,Porto,700,2026-03-01T12:00:00Z,true,0.5\n",
                {"id": "a", "city": "Porto", "rent": 700, "posted": NOON, "furnished": True, "score": 0.5},
            ),
            ("declared,rooms\n700,2\n", {"declared": 700, "rooms": "2"}),
            (
                "time,expirytime,type\n2026-03-01T12:00:00Z,2026-03-02,flat\n",
                {"time": NOON, "expirytime": datetime(2026, 3, 2, tzinfo=UTC), "type": "flat"},
            ),
            ("data.type,address.city\nflat,Porto\n", {"data.type": "flat", "address.city": "Porto"}),
            ('city,rent:int,note\n,,""\n', {}),
            ("dc:title:string\nx\n", {"dc:title": "x"}),
            ("\ufeffa,b\n1,2\n", {"a": "1", "b": "2"}),
        ],
        ids=["types", "types of the schema", "envelope", "hidden by the envelope", "empty cells", "colon", "mark"],
    )
    def test_the_header_names_attributes_and_types(self, read, text, expected):
        (event,), problems = read(
            "flats.csv", text, Schema({"declared": ValueType.INT}) if "declared" in text else None
        )
        given = {"id": event.identified().id, "source": "flats.csv", "specversion": "1.0", "type": event.type}
        assert event.attributes == {**given, **expected}
        assert problems == []

    def test_quoted_cells_may_hold_commas_quotes_and_line_ends(self, read):
        found, problems = read("flats.csv", 'a,b\n"x, ""y""\r\nz",2\n3,"4"\n5 " 6,7\n')
        assert payloads(found) == [{"a": 'x, "y"\r\nz', "b": "2"}, {"a": "3", "b": "4"}, {"a": '5 " 6', "b": "7"}]
        assert problems == []

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (b"1", "1 cells; expected 2, as in the header; the line is '1'"),
            (b"1,2,3", "3 cells; expected 2"),
            (b"x,2", "n: 'x' is not a whole number"),
            (b"1.5,2", "n: '1.5' is not a whole number"),
            (b"9223372036854775808,2", "n: '9223372036854775808' does not fit a 64-bit integer"),
            (b"9" * 5_000 + b",2", "is not a whole number"),
            (b"1,NaN", "x: 'NaN' is not a number; leave the cell empty"),
            (b"1,inf", "x: 'inf' is not a number"),
            (b"1,1e999", "x: '1e999' is outside the range of float64"),
            (b"1," + b"9" * 1_000_000 + b"x", "x: '9999999999"),  # a reader that tries every split never ends
            (b"1,\xff", "not UTF-8: byte 0xff at offset 2"),
            (b'1,"2', "the quoted cell that starts here is never closed; the line is"),
            (b'1,"2"x', "a comma must follow a closing quote"),
        ],
    )
    def test_a_bad_record_is_set_aside_and_reading_goes_on(self, read, bad, message):
        found, problems = read("flats.csv", b"n:int,x:float\n1,1\n" + bad + b"\n3,3\n4,4\n")
        assert payloads(found) == [{"n": 1, "x": 1.0}, {"n": 3, "x": 3.0}, {"n": 4, "x": 4.0}]
        line, text = line_and_message(problems)
        assert line == 3
        assert message in text

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ("a,a:int", "the column 'a' occurs twice"),
            ("a,,b", "'' is not a column"),
            ("a:integer", "'a:integer' has the unknown type 'integer'"),
            ("time:int", "'time' belongs to the envelope and is a time, not a int"),
            ('"a', "header: the quoted cell that starts here is never closed"),
            ("id;city;rent", "header: 'id;city;rent' is one column with ';' in it; cells are separated by commas"),
            ("id\tcity", "is one column with '\\t' in it"),
        ],
    )
    def test_a_header_that_cannot_be_used_makes_the_file_unusable(self, read, header, message):
        with pytest.raises(InvalidFileError) as caught:
            read("flats.csv", header + "\n1\n")
        assert message in str(caught.value)
        assert caught.value.problems[0].line == 1

    @pytest.mark.parametrize("content", ["", "\n\n", "a,b\n"])
    def test_no_records_are_no_events(self, read, content):
        assert read("flats.csv", content) == ([], [])

    def test_a_bad_bool_or_time_is_named(self, read):
        _, problems = read("flats.csv", "b:bool,t:time\nyes,\n,soon\n")
        assert [problem.message.partition(";")[0] for problem in problems] == [
            "b: 'yes' is not a bool",
            "t: 'soon' is not a time",
        ]


class TestAnyFormat:
    def test_with_a_schema_events_have_its_types(self, read):
        schema = Schema({"posted": ValueType.TIME, "rent": ValueType.INT}, required=frozenset({"rent"}))
        found, problems = read("flats.jsonl", '{"posted": "2026-03-01T12:00Z", "rent": 7.0}\n{}\n{"rent": "x"}', schema)
        assert found[0].attributes["posted"] == NOON
        assert [problem.line for problem in problems] == [2, 3]
        assert problems[0].message == "required attribute missing: rent"

    @pytest.mark.parametrize(
        ("name", "make", "message"),
        [
            ("nowhere.csv", None, "nowhere.csv: cannot be read: No such file"),
            ("nowhere", None, "nowhere: cannot be read: No such file"),  # not that the suffix is unknown
            ("x.csv", Path.mkdir, "x.csv: no event files are in it; expected some of .jsonl"),
            ("x.txt", Path.touch, "x.txt: the suffix '.txt' is not that of an event file"),
            ("x.parquet.gz", Path.touch, "x.parquet.gz: Parquet is compressed inside"),
        ],
    )
    def test_what_cannot_be_read_is_refused_before_the_first_event(self, tmp_path, name, make, message):
        if make is not None:
            make(tmp_path / name)
        with pytest.raises(InvalidFileError) as caught:
            read_events(tmp_path / name)
        assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("x.jsonl", '{"a": 1}'.encode("utf-16"), "the file is UTF-16; expected UTF-8"),
            ("x.csv", '{"a": 1}'.encode("utf-16"), "the file is UTF-16; expected UTF-8"),
            ("x.csv", '{"a": 1}'.encode("utf-32"), "the file is UTF-32; expected UTF-8"),
            ("x.jsonl", codecs.BOM_UTF32_BE + '{"a": 1}'.encode("utf-32-be"), "the file is UTF-32; expected UTF-8"),
            ("x.jsonl.gz", b"not compressed", "the compressed data is damaged"),
            ("x.jsonl.gz", gzip.compress(b'{"a": 1}\n', mtime=0)[:12], "the compressed data is damaged"),
            ("x.json", b'[{"n": 1},\n{"n" 2}]', "x.json:2: not JSON"),
        ],
    )
    def test_content_that_cannot_be_used_makes_the_file_unusable(self, read, name, content, message):
        with pytest.raises(InvalidFileError, match=message):
            read(name, content)

    def test_a_folder_is_its_event_files_by_name(self, tmp_path):
        texts = {"b.csv": "a:int\n2\n", "a.jsonl": '{"a": 1}\n{"a"\n', "c.json": '[{"a": 3}]', "_x.json": "{}"}
        for name, text in {**texts, ".d.csv": "a\n4\n", "notes.txt": "", "e.parquet": "none"}.items():
            (tmp_path / name).write_text(text)
        found, problems = apart(read_events(tmp_path))
        assert [(event.source, event.id, event.data) for event in found] == [
            ("a.jsonl", digest(a=1), {"a": 1}),
            ("b.csv", digest(a=2), {"a": 2}),
            ("c.json", digest(a=3), {"a": 3}),
        ]
        assert [(problem.file, problem.line) for problem in problems] == [
            (str(tmp_path / "a.jsonl"), 2),
            (str(tmp_path / "e.parquet"), None),
        ]

    def test_a_folder_within_a_folder_is_set_aside_wherever_it_leads(self, tmp_path):
        (tmp_path / "a.jsonl").write_text('{"a": 1}')
        (tmp_path / "loop.csv").symlink_to(tmp_path)
        found, problems = apart(read_events(tmp_path))
        assert payloads(found) == [{"a": 1}]
        assert [problem.message for problem in problems] == ["a folder within a folder; expected an event file"]

    def test_what_may_not_be_looked_at_cannot_be_read(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Path, "iterdir", Mock(side_effect=PermissionError(13, "Permission denied")))
        with pytest.raises(InvalidFileError, match="cannot be read: Permission denied"):
            read_events(tmp_path)
        (problem,) = check_file(tmp_path).problems
        assert problem.message == "cannot be read: Permission denied"

    def test_a_format_that_is_given_wins_over_the_suffix(self, read):
        found, _ = read("x.txt", "a\n1\n", format=EventFormat.CSV)
        assert payloads(found) == [{"a": "1"}]

    @pytest.mark.parametrize(("name", "text"), [("x.jsonl.gz", '{"a": 1}\n'), ("x.csv.gz", "a:int\n1\n")])
    def test_compressed_files_are_read(self, read, name, text):
        found, problems = read(name, gzip.compress(text.encode()))
        assert (payloads(found), problems) == ([{"a": 1}], [])

    def test_damage_in_the_middle_ends_the_events_with_a_problem(self, read):
        lines = b"".join(b'{"n": %d, "hash": %d}\n' % (n, hash((n, n))) for n in range(20_000))
        compressed = gzip.compress(lines)
        found, problems = read("x.jsonl.gz", compressed[: len(compressed) // 2])
        assert found
        assert [event.data["n"] for event in found] == list(range(len(found)))
        line, message = line_and_message(problems)
        assert line == len(found)
        assert message.startswith("nothing can be read after this line: the compressed data is damaged")


def unique_events(content=None):
    return st.lists(events(content), max_size=5, unique_by=lambda event: event.identity)


def as_json(event):
    """Return what JSON keeps of an event: times in the payload become texts."""
    return json.dumps(event_to_json(event))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("events")


def come_back(path, written, schema=None):
    """Write events and read them again."""
    assert write_events(path, written) == len(written)
    found, problems = apart(read_events(path, schema))
    assert problems == []
    return found


@pytest.mark.parametrize("suffix", ["jsonl", "json", "jsonl.gz"])
@given(written=unique_events())
def test_json_keeps_events_whole(folder, suffix, written):
    found = come_back(folder / f"x.{suffix}", written)
    assert [as_json(event) for event in found] == [as_json(event) for event in written]


def typed_attributes():
    """Draw rows whose attributes have one type each, as tables need."""
    kinds = dict(zip("bnxst", (ValueType(kind) for kind in ("bool", "int", "float", "string", "time")), strict=True))
    kinds |= {"address.city": ValueType.STRING, "data.type": ValueType.INT, "dc:title": ValueType.STRING}
    drawn = {name: values(kind).filter(lambda value: value != "") for name, kind in kinds.items()}
    return st.fixed_dictionaries({}, optional=drawn)


def attributes_of(found):
    return [{name: (type(value), value) for name, value in event.attributes.items() if value != ""} for event in found]


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
@given(written=unique_events(typed_attributes()))
def test_tables_keep_attributes(folder, name, written):
    written = [event for event in written if name != "x.csv" or "" not in event.attributes.values()]
    assert attributes_of(come_back(folder / name, written)) == attributes_of(written)


@given(st.data())
def test_a_schema_gives_json_its_types_back(folder, data):
    schema = data.draw(schemas())
    written = data.draw(st.lists(conforming_events(schema), max_size=3, unique_by=lambda event: event.identity))
    written = [event for event in written if is_typed(event, schema)]
    assert attributes_of(come_back(folder / "x.jsonl", written, schema)) == attributes_of(written)


def is_typed(event, schema):
    """Whether all of an event's attributes are declared, and no infinity is among them: JSON makes a text of it."""
    is_declared = set(event.attributes) <= {*schema.attributes, *SIMPLE}
    return is_declared and not any(value in INFINITE for value in event.attributes.values())


SIMPLE = ("id", "source", "specversion", "type", "time", "expirytime", "subject", "region")
INFINITE = (float("inf"), float("-inf"))


@given(st.binary(max_size=200) | st.text('{}[]",:\n ab1é', max_size=80).map(str.encode))
def test_any_bytes_are_read_without_a_crash(folder, content):
    for name in ("y.jsonl", "y.json", "y.csv", "y.parquet", "y.jsonl.gz"):
        (folder / name).write_bytes(content)
        try:
            for item in read_events(folder / name):
                assert isinstance(item, Event | Problem)
        except InvalidFileError as error:
            found = error.problems
            assert len(found) == 1


def with_a(*given):
    return [Event.of({"a": value}, id=str(value), source="/x") for value in given]


class TestWriting:
    @pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
    def test_lists_are_read_back_with_every_element_in_order(self, tmp_path, name):
        written = [
            Event.of({"tags": ["b", "a", "b"], "v": [1, 0.5, 1]}, id="1", source="/x"),
            Event.of({"n": 2}, id="2", source="/x"),
        ]
        write_events(tmp_path / name, written)
        found = list(read_events(tmp_path / name))
        assert [event.data for event in found] == [event.data for event in written]
        assert found[0].attributes["tags"] == ("b", "a")
        with pytest.raises(InvalidEventError, match=r"a: the events mix \[int\] and int"):
            write_events(tmp_path / name, with_a(1, [2]))

    @pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
    def test_a_table_refuses_two_types_in_one_column(self, tmp_path, name):
        with pytest.raises(InvalidEventError, match="a: the events mix int and string"):
            write_events(tmp_path / name, with_a(1, "x"))

    def test_whole_numbers_go_to_a_float_column_only_when_that_is_exact(self, tmp_path):
        path = tmp_path / "x.csv"
        write_events(path, with_a(1, 0.5))
        assert payloads(apart(read_events(path))[0]) == [{"a": 1.0}, {"a": 0.5}]
        with pytest.raises(InvalidEventError, match="a: the events mix float and int"):
            write_events(path, with_a(2**53 + 1, 0.5))

    @pytest.mark.parametrize("value", [[], ["a;b"], [""]])
    def test_csv_refuses_lists_that_a_cell_cannot_hold(self, tmp_path, value):
        with pytest.raises(InvalidEventError, match=r"^a: an (empty list|element with ';'|empty text)"):
            write_events(tmp_path / "x.csv", with_a(value))

    def test_a_list_in_csv_has_the_separator_that_its_schema_declares(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("id,tags,n:[int]\n1,a|b||a,3;4\n")
        declared = {"tags": ValueType.STRINGS, "n": ValueType.INTS}
        (event,) = read_events(path, Schema(declared, separators={"tags": "|"}))
        assert (event.attributes["tags"], event.attributes["n"]) == (("a", "b"), (3, 4))

    def test_csv_refuses_an_empty_text(self, tmp_path):
        with pytest.raises(InvalidEventError, match="a: an empty text cannot be told from a missing one"):
            write_events(tmp_path / "x.csv", [Event.of({"a": ""}, id="1", source="/x")])

    def test_json_refuses_what_it_cannot_hold_and_leaves_the_old_file(self, tmp_path):
        path = tmp_path / "x.jsonl"
        write_events(path, [Event("1", "/x")])
        before = path.read_bytes()
        with pytest.raises(InvalidEventError, match="event '2': data cannot be written as JSON"):
            write_events(path, [Event("1", "/x"), Event("2", "/x", data={1, 2})])
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_no_events_make_a_file_without_events(self, tmp_path):
        for name in ("x.jsonl", "x.json", "x.csv", "x.parquet"):
            assert write_events(tmp_path / name, []) == 0
            assert list(read_events(tmp_path / name)) == []
