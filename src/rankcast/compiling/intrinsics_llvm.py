"""The instructions behind `intrinsics`, as numba generates them. Imported when a kernel is compiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from rankcast.compiling.arguments import ANY


@intrinsic
def lowest_bit(_: Any, __: Any) -> Any:
    """Count the zeros at the end."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return numba.types.int64(numba.types.uint64), generate


@intrinsic
def count_bits(_: Any, __: Any) -> Any:
    """Count the ones."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.types.int64(numba.types.uint64), generate


@intrinsic
def prefetch(_: Any, array: Any, line: Any) -> Any:
    """Say that an address will be read."""

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


def array_reader(place: int, kind: type[np.generic], columns: int) -> Any:
    """Return what makes the array at a place of a table of addresses; see `rankcast.compiling.arguments`."""
    dtype, word = np.dtype(kind), ir.IntType(64)
    made = numba.types.Array(numba.from_dtype(dtype), 1 + bool(columns), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = context.make_array(signature.args[0])(context, builder, arguments[0])
        address, length = (builder.load(builder.gep(table.data, [word(2 * place + at)])) for at in (0, 1))
        width = arguments[1:] or [word(columns)]
        size = word(dtype.itemsize)
        array = context.make_array(made)(context, builder)
        populate: Any = populate_array
        populate(
            array,
            data=builder.inttoptr(address, array.data.type),
            shape=[length, *width] if columns else [length],
            strides=[builder.mul(size, width[0]), size] if columns else [size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    if columns == ANY:

        @intrinsic
        def reader(_: Any, table: Any, __: Any) -> Any:
            return made(table, numba.types.int64), generate
    else:

        @intrinsic
        def reader(_: Any, table: Any) -> Any:
            return made(table), generate

    cpu_target.typing_context.refresh()
    return reader


@intrinsic
def move_words(_: Any, target: Any, to: Any, source: Any, first: Any, count: Any) -> Any:
    """Call memmove."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held, at, others, begin, length = arguments
        word = ir.IntType(64)

        def place(array: Any, kind: Any, offset: Any) -> Any:
            data = context.make_array(kind)(context, builder, array).data
            start = builder.add(builder.ptrtoint(data, word), builder.shl(offset, word(3)))
            return builder.inttoptr(start, ir.IntType(8).as_pointer())

        kinds = signature.args
        move: Any = cgutils.raw_memmove
        move(builder, place(held, kinds[0], at), place(others, kinds[2], begin), length, 8)
        return context.get_dummy_value()

    number = numba.types.int64
    return numba.types.void(target, number, source, number, number), generate
