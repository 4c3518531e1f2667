"""Shapes of small documents: numbers that nothing can be worked out with are refused with their line."""

import pytest

from rankcast.model.errors import InvalidFileError
from rankcast.storage.document_schema import AMOUNT, COUNT, PLACE, check_shape, mapping
from rankcast.storage.documents import DocumentFormat, parse_document

SHAPE = mapping([], amount=AMOUNT, count=COUNT, place=PLACE)


def check(text):
    check_shape(parse_document(text, DocumentFormat.YAML, "x.yaml"), SHAPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count: 1\namount: 1" + "0" * 320, "x.yaml:2: .*is not a number up to 1.79769e"),
        ("amount: -1", "x.yaml:1: -1 is not a number of at least 0"),
        ("amount: x", "x.yaml:1: 'x' is not a number of at least 0"),
        ("count: 2.0", "x.yaml:1: 2.0 is not a whole number of at least 1"),
        ("place: 0.0", "x.yaml:1: 0.0 is not a whole number of at least 0"),
        ("place: true", "x.yaml:1: True is not a whole number of at least 0"),
    ],
)
def test_what_is_no_such_number_is_refused_with_its_line(text, message):
    with pytest.raises(InvalidFileError, match=message):
        check(text)


def test_numbers_may_be_as_large_as_they_can_be():
    check("{amount: 1.7e+308, count: 2, place: 0}")
    check("amount: 1" + "0" * 308)
