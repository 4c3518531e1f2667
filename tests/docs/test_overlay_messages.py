"""What docs/overlay.md shows of the wire is what brokers write and read."""

import json
import re
import typing
from dataclasses import MISSING
from pathlib import Path

import pytest

from rankcast.language.lossless import fields_of, is_record
from rankcast.model.filters import Filter
from rankcast.overlay.messages import Message, PeerMessage, decoded, encoded

PAGE = (Path(__file__).parents[2] / "docs" / "overlay.md").read_text()
EXAMPLES = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def classes_within(declared):
    """Give every record that a type is or may hold, however deep, but filters, which are texts."""
    found, waiting = set(), [declared]
    while waiting:
        one = waiting.pop()
        waiting += typing.get_args(one)
        if is_record(one) and one is not Filter and one not in found:
            found.add(one)
            hints = typing.get_type_hints(one)
            waiting += [hints[name] for name in fields_of(one)]
    return found


def test_there_are_examples_of_what_clients_say():
    assert {json.loads(one)["is"] for one in EXAMPLES} >= {"Subscribe", "Advertise", "Publish"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_a_message_as_it_is_written(example):
    plain = json.dumps(json.loads(example), separators=(",", ":"), ensure_ascii=False).encode()
    assert encoded(decoded(plain)) == plain


def test_the_table_of_objects_has_every_object_with_its_fields():
    rows = PAGE.split("| object | where | has | may have |\n")[1].split("\n\n")[0].splitlines()[1:]
    listed = {}
    for row in rows:
        objects, _, has, may_have = (re.findall(r"`(\w+)`", cell) for cell in row.strip("|").split("|"))
        listed |= dict.fromkeys(objects, (has, may_have))
    inner = classes_within(Message) - {*typing.get_args(Message), *typing.get_args(PeerMessage)}

    assert listed == {one.__name__: (names(one, needed=True), names(one, needed=False)) for one in inner}


def names(declared, *, needed):
    """Return the names of the fields that must be there, or of those that may be left out."""
    return [name for name, default in fields_of(declared).items() if (default is MISSING) == needed]
