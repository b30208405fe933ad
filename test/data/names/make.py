#!/usr/bin/env python3
"""Parquet files whose columns, or fields of a struct, have names that DuckDB cannot tell apart. Written by pyarrow 26.

    test/data/names/make.py
"""

from pathlib import Path

import pyarrow
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
ROWS = 30


def write(name, names, columns):
    table = pyarrow.Table.from_arrays([pyarrow.array(column) for column in columns], names=names)
    pyarrow.parquet.write_table(table, HERE / name, row_group_size=10, store_schema=False)


low = list(range(ROWS))
high = [value + 1000 for value in low]
text = [f"row {value}" for value in low]
write("case.parquet", ["a", "A", "b"], [low, high, text])
write("same.parquet", ["a", "a", "a_1"], [low, high, text])
write("empty.parquet", ["", ""], [low, high])
write("other_order.parquet", ["A", "b", "a"], [high, text, low])
inner = pyarrow.StructArray.from_arrays([pyarrow.array(low), pyarrow.array(high)], names=["k", "K"])
pair = pyarrow.StructArray.from_arrays([inner, pyarrow.array(text)], names=["s", "S"])
lists = pyarrow.ListArray.from_arrays(pyarrow.array(range(ROWS + 1), pyarrow.int32()), inner)
write("nested.parquet", ["p", "l"], [pair, lists])
