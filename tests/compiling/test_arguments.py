"""Tables of addresses refuse arrays that a kernel would take for something else."""

import numpy as np
import pytest

from rankcast.compiling.arguments import KernelArguments

KINDS = {"plain": (np.int64, 0), "columns": (np.int32, 2)}


def test_a_table_says_where_arrays_are_and_how_long():
    plain, columns = np.arange(3), np.zeros((5, 2), np.int32)
    table = KernelArguments.of(KINDS, {"plain": plain, "columns": columns})
    assert table.addresses.tolist() == [plain.ctypes.data, 3, columns.ctypes.data, 5]


def test_a_table_keeps_its_arrays_alive_and_makes_them_contiguous():
    table = KernelArguments.of(KINDS, {"plain": np.arange(10)[::2], "columns": np.zeros((5, 2), np.int32)})
    assert table.arrays["plain"].flags.c_contiguous
    assert table.addresses[0] == table.arrays["plain"].ctypes.data
    assert table.arrays["plain"].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    "arrays",
    [
        (np.arange(3, dtype=np.int32), np.zeros((5, 2), np.int32)),
        (np.arange(3), np.zeros((5, 3), np.int32)),
        (np.arange(3), np.zeros(5, np.int32)),
        (np.zeros((3, 1), np.int64), np.zeros((5, 2), np.int32)),
    ],
)
def test_other_types_and_shapes_are_refused(arrays):
    with pytest.raises(ValueError, match="expected"):
        KernelArguments.of(KINDS, dict(zip(KINDS, arrays, strict=True)))
