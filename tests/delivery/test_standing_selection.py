"""A selection that stands is always the one that would be made anew."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rankcast.delivery.candidates import Candidate, chosen
from rankcast.delivery.standing_selection import StandingSelection
from rankcast.model.diversity import Diversity
from rankcast.model.events import Identity

START = datetime(2026, 1, 1, tzinfo=UTC)
diversities = st.builds(
    Diversity,
    st.sampled_from((0.0, 0.3, 0.5, 1.0)),
    st.dictionaries(st.sampled_from("abz"), st.sampled_from((0.1, 0.2, 0.7))),
)
events = st.tuples(
    st.integers(0, 9),
    st.sampled_from((0.0, 0.1, 1 / 3, 0.5, 1.0)),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from((0, 1, True, "1"))),
)
moves = st.lists(events | st.integers(0, 5), max_size=40)


@given(moves, st.integers(0, 4), diversities, st.integers(1, 3))
def test_whatever_enters_and_leaves_it_is_the_selection_made_anew(moves, k, diversity, every):
    selection, held = StandingSelection(k, diversity), []
    for number, move in enumerate(moves):
        if isinstance(move, int):
            if held:
                selection.left(held.pop(move % len(held)))
        else:
            seconds, rank, content = move
            time = START + timedelta(seconds=seconds)
            held.append(Candidate(Identity("s", f"{number}"), time, rank, None, tuple(sorted(content.items()))))
            selection.entered(held[-1])
        if number % every == 0:
            assert selection.among(held) == chosen(held, k, diversity)


def test_an_event_that_changes_nothing_leaves_it_standing():
    def event(name, rank, genre):
        return Candidate(Identity("s", name), START, rank, None, (("genre", genre),))

    selection = StandingSelection(2, Diversity(0.5))
    best, other = event("a", 0.9, "war"), event("b", 0.8, "drama")
    for one in (best, other):
        selection.entered(one)
    assert selection.among([best, other]) == [best, other]
    copy = event("c", 0.7, "war")
    selection.entered(copy)
    assert selection.among(()) == [best, other]  # nothing is looked at again
    selection.left(copy)
    assert selection.among(()) == [best, other]
    selection.left(best)
    assert selection.among([other]) == [other]
