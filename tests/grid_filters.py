"""Filters and boxes on a small grid, so that many of them cover each other, meet or are equal."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

GRID = 5

GRID_BOXES = st.builds(
    lambda x, width, y, height: f"x between {x} and {x + width} and y between {y} and {y + height}",
    *(st.integers(0, 3) for _ in range(4)),
)


@st.composite
def grid_rows(draw, most):
    """A box and rows as starts and ends: (start, end, starts, ends); sides are often free, so that unions cover."""
    attributes, rows = draw(st.integers(1, 3)), draw(st.integers(0, most))
    first, second = (
        draw(arrays.arrays(np.int64, (rows + 1, attributes), elements=st.integers(0, GRID - 1))) for _ in "12"
    )
    starts, ends = np.minimum(first, second), np.maximum(first, second) + 1
    free = draw(arrays.arrays(np.bool_, (rows, attributes)))
    starts[1:][free], ends[1:][free] = 0, GRID
    return starts[0], ends[0], np.ascontiguousarray(starts[1:]), np.ascontiguousarray(ends[1:])
