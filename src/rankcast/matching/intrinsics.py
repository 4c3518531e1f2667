"""What kernels need of the processor, and numba does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.extending import intrinsic


def _lowest_bit(_: Any, __: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return numba.types.int64(numba.types.uint64), generate


lowest_bit = cast("Callable[[Any], int]", intrinsic(_lowest_bit))
"""The position of the lowest set bit of a uint64; 64 for zero."""


def _count_bits(_: Any, __: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.types.int64(numba.types.uint64), generate


count_bits = cast("Callable[[Any], int]", intrinsic(_count_bits))
"""How many bits of a uint64 are set."""


def _prefetch(_: Any, array: Any, line: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(held.strides, 0)
        offset = builder.mul(arguments[1], stride)
        address = builder.inttoptr(
            builder.add(builder.ptrtoint(held.data, ir.IntType(64)), offset), ir.IntType(8).as_pointer()
        )
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        declare: Any = cgutils.get_or_insert_function
        function = declare(builder.module, kind, "llvm.prefetch.p0")
        # For reading, into every level of the cache, data.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.types.void(array, numba.types.int64), generate


prefetch = cast("Callable[[Any, int], None]", intrinsic(_prefetch))
"""Start to load the line of an array (its first index); a line outside the array is harmless."""


def _pointer(_: Any, address: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return numba.types.voidptr(numba.types.int64), generate


pointer = cast("Callable[[int], Any]", intrinsic(_pointer))
"""An address as what `numba.carray` makes an array of; see `part_tables`."""
