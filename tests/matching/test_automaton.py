"""The automaton finds exactly the patterns that occur."""

from hypothesis import example, given
from hypothesis import strategies as st

from rankcast.matching.encoding.byte_tables import ByteTable
from rankcast.matching.encoding.texts import Automaton

texts = st.text("abé😀", max_size=8)


@given(st.lists(texts.filter(bool), max_size=8, unique=True), st.lists(texts, max_size=5))
@example(["a", "aa", "aaa"], ["aaaa", "", "a"])
@example(["abab", "bab", "ab"], ["ababab"])
def test_every_occurring_pattern_of_a_group_is_found_once_per_text(patterns, searched):
    table = ByteTable.of_texts(searched)
    literals = [one.encode() for one in patterns]
    automaton = Automaton.of([[], literals, literals[::2]])
    for group, first, own in ((0, 0, []), (1, 0, patterns), (2, len(patterns), patterns[::2])):
        text, pattern = automaton.find(group, table.start, table.data)
        expected = [(i, first + k) for i, one in enumerate(searched) for k, literal in enumerate(own) if literal in one]
        assert sorted(zip(text.tolist(), pattern.tolist(), strict=True)) == expected
