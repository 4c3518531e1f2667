"""Anything in any place of what was written: for the corruption properties of every written form."""

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(plain, path=()):
    """Give every place in some plain data."""
    yield path
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for name, value in inner:
        yield from places(value, (*path, name))


def spoil(plain, data):
    """Put anything into any place of plain data, as Hypothesis's `data` decides."""
    *path, last = data.draw(st.sampled_from([place for place in places(plain) if place]))
    for name in path:
        plain = plain[name]
    plain[last] = data.draw(JSON)
