"""Texts of filters on a small grid, so that many of them cover each other, meet or are equal."""

from hypothesis import strategies as st

GRID_BOXES = st.builds(
    lambda x, width, y, height: f"x between {x} and {x + width} and y between {y} and {y + height}",
    *(st.integers(0, 3) for _ in range(4)),
)
