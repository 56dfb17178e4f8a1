"""Matrix products of small matrices: a tile of the result stays in registers.

    C[m, n] = init[m, n] + sum over k of A[m, k] B[k, n]

k runs upwards, one fused multiply-add a step, for every element of C. The result is therefore the
same bit for bit with vectors of any width, on any processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from longhaul.core.native import kernel

WIDTH = 16
"""What the sizes of matrices are multiples of."""
FLOAT_BYTES = 4


def _vector_width() -> int:
    """Return how many floats a register of the processor holds that code is compiled for."""
    chosen = cast(Any, numba).config
    if chosen.CPU_NAME:
        return 16 if "+avx512f" in (chosen.CPU_FEATURES or "") else 8
    return 16 if binding.get_host_cpu_features().get("avx512f") else 8


LANES = _vector_width()
_FLOAT, _WORD, _LANE = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_unpack = cast(Any, cgutils.unpack_tuple)  # Numba gives no types for it.


def _number(value: int) -> Any:
    return ir.Constant(_WORD, value)


class _Generator:
    """Generates the code of one tile of `rows` x `vectors` registers."""

    def __init__(self, builder: Any, rows: int, vectors: int) -> None:
        self.builder = builder
        self.rows = rows
        self.vectors = vectors
        name = f"llvm.fma.v{LANES}f32"
        known = builder.module.globals.get(name)
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        self._multiply_add = known or ir.Function(builder.module, kind, name)

    def floats(self, address: Any) -> Any:
        """Return an address as a pointer."""
        return self.builder.inttoptr(address, _FLOAT.as_pointer())

    def vector(self, base: Any, row_offset: Any, vector: int) -> Any:
        """Return a pointer to one vector of a row."""
        offset = self.builder.add(row_offset, _number(vector * LANES))
        return self.builder.bitcast(self.builder.gep(base, [offset]), _VECTOR.as_pointer())

    def load(self, base: Any, row_offset: Any, vector: int) -> Any:
        """Return one vector of a row."""
        return self.builder.load(self.vector(base, row_offset, vector), align=FLOAT_BYTES)

    def spread(self, number: Any) -> Any:
        """Return a vector of equal numbers."""
        empty = ir.Constant(_VECTOR, ir.Undefined)
        first = self.builder.insert_element(empty, number, ir.Constant(_LANE, 0))
        lanes = ir.Constant(ir.VectorType(_LANE, LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, empty, lanes)

    def generate(self, places: Sequence[Any], length: Any) -> None:
        """Load the tile's first values, add all products, store the tile."""
        builder, rows, vectors = self.builder, range(self.rows), range(self.vectors)
        (c, c_row), (a, a_row, a_step), (b, b_row), (init, init_row) = places
        c, a, b, init = (self.floats(address) for address in (c, a, b, init))
        first = [
            [self.load(init, builder.mul(init_row, _number(m)), v) for v in vectors] for m in rows
        ]
        a_places = [builder.mul(a_row, _number(m)) for m in rows]
        before = builder.block
        loop, after = builder.append_basic_block("step"), builder.append_basic_block("stored")
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(_WORD)
        k.add_incoming(_number(0), before)
        sums = [[builder.phi(_VECTOR) for _ in vectors] for _ in rows]
        b_place, a_place = builder.mul(k, b_row), builder.mul(k, a_step)
        of_b = [self.load(b, b_place, v) for v in vectors]
        added = []
        for m in rows:
            place = builder.gep(a, [builder.add(a_places[m], a_place)])
            of_a = self.spread(builder.load(place, align=FLOAT_BYTES))
            added.append(
                [builder.call(self._multiply_add, [of_a, of_b[v], sums[m][v]]) for v in vectors]
            )
        following = builder.add(k, _number(1))
        k.add_incoming(following, loop)
        for m in rows:
            for v in vectors:
                sums[m][v].add_incoming(first[m][v], before)
                sums[m][v].add_incoming(added[m][v], loop)
        builder.cbranch(builder.icmp_signed("<", following, length), loop, after)
        builder.position_at_end(after)
        for m in rows:
            for v in vectors:
                place = self.vector(c, builder.mul(c_row, _number(m)), v)
                builder.store(added[m][v], place, align=FLOAT_BYTES)


def _tile(rows: int, vectors: int) -> Any:
    """Return native code for one tile of `length` products, at least one, as `multiply` has it."""

    def tile(typing_context: Any, c: Any, a: Any, b: Any, init: Any, length: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            places = [_unpack(builder, place) for place in values[:-1]]
            _Generator(builder, rows, vectors).generate(places, values[-1])
            return context.get_dummy_value()

        return types.void(c, a, b, init, types.int64), generate

    return cast(Any, intrinsic(tile))


def _type_copy(typing_context: Any, target: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        for first in range(0, WIDTH * FLOAT_BYTES, LANES * FLOAT_BYTES):
            written, read = (
                builder.inttoptr(builder.add(value, _number(first)), _VECTOR.as_pointer())
                for value in values
            )
            builder.store(builder.load(read, align=FLOAT_BYTES), written, align=FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


copy_sixteen = cast(Any, intrinsic(_type_copy))
"""Copy 16 numbers between two addresses, as vectors."""
_wide = _tile(4, 4)
_middle = _tile(8, 2)
_narrow = _tile(8, 1)

Place = tuple[int, int]
"""The address of a matrix and the distance between its rows, in floats."""


@kernel
def _at(matrix: Place, row: int, column: int) -> Place:
    return matrix[0] + FLOAT_BYTES * (row * matrix[1] + column), matrix[1]


@kernel
def _row(matrix: tuple[int, int, int], row: int) -> tuple[int, int, int]:
    return matrix[0] + FLOAT_BYTES * row * matrix[1], matrix[1], matrix[2]


@kernel
def multiply(
    c: Place, a: tuple[int, int, int], b: Place, init: Place, size: tuple[int, int, int]
) -> None:
    """C = init + A B for rows, columns and length; A has distances between rows and columns.

    Rows are a multiple of 8 and columns one of 16; distances of 0 repeat a row.
    """
    rows, columns, length = size
    n = 0
    while n + 4 * LANES <= columns:
        for m in range(0, rows, 4):
            _wide(_at(c, m, n), _row(a, m), _at(b, 0, n), _at(init, m, n), length)
        n += 4 * LANES
    while n + 2 * LANES <= columns:
        for m in range(0, rows, 8):
            _middle(_at(c, m, n), _row(a, m), _at(b, 0, n), _at(init, m, n), length)
        n += 2 * LANES
    while n < columns:
        for m in range(0, rows, 8):
            _narrow(_at(c, m, n), _row(a, m), _at(b, 0, n), _at(init, m, n), length)
        n += LANES
