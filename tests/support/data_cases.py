"""Data files and operations on data sets whose results by `datasets` are stored in golden/datasets."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from typing import Any, NamedTuple


class File(NamedTuple):
    """A file, and how it is to be read."""

    kind: str
    content: bytes
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


def lines(*rows: Any) -> File:
    """JSON lines of values, or of text as it is."""
    text = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    return File("json", "".join(f"{line}\n" for line in text).encode())


def listed(value: Any, **options: Any) -> File:
    return File("json", json.dumps(value).encode(), options)


def table(text: str, **options: Any) -> File:
    return File("csv", text.encode(), options)


JSON_FILES = {
    "whole and other numbers": lines({"a": 1}, {"a": 2.5}),
    "floats that look whole": lines('{"a": 1.0}', '{"a": 2}'),
    "keys in another order": lines({"a": 1, "b": 2}, {"b": 3, "a": 4}),
    "a key is missing": lines({"b": 1}, {"a": "x", "b": 3}),
    "structs in another order": lines({"s": {"x": 1, "y": 2}}, {"s": {"y": 1, "x": 2.5}}),
    "structs of different keys": lines({"s": {"x": 1, "y": 2}}, {"s": {"x": 1.5}}),
    "a struct is null or missing": lines({"s": {"x": 1}}, {"s": None}, {}),
    "lists of structs": lines({"s": [{"x": 1, "y": "a"}]}, {"s": [{"y": "b", "x": 0.5}]}),
    "dates": lines({"a": "2020-01-01"}, {"a": "2020-01-01T01:02:03"}, {"a": None}),
    "dates with zones": lines({"a": "2020-01-01T10:11:12+02:00"}, {"a": "2020-01-01 10:11:12Z"}),
    "dates in lists and structs": lines({"a": ["2020-01-01"], "b": {"d": "2020-01-01T10"}}),
    "fractions of seconds are text": lines({"a": "2020-01-01T10:11:12.123"}),
    "not all are dates": lines({"a": "2020-01-01"}, {"a": "hello"}),
    "no such month": lines({"a": "2020-13-01"}),
    "a late word after many dates": lines(*[{"a": "2020-01-01", "n": n} for n in range(50)], {"a": "x", "n": 0}),
    "nothing but null": lines({"a": None, "b": 1}, {"a": None, "b": 2}),
    "empty lists": lines({"a": []}, {"a": ["x"]}),
    "numbers in lists": lines({"a": [1, 2.5]}, {"a": [[1], [2.5]][0]}),
    "lists of lists": lines({"a": [[1], [2.5]]}),
    "large whole numbers": lines({"a": 2**60}, {"a": 1}),
    "large whole numbers beside a float": lines('{"a": 9007199254740993}', '{"a": 0.5}'),
    "text and numbers": lines({"a": "x"}, {"a": 1}, {"a": "2"}, {"a": "[1]"}),
    "text and numbers in a list": lines({"a": ["x", 1]}),
    "a list or text": lines({"a": ["x"]}, {"a": "x"}),
    "booleans and numbers": lines({"a": True}, {"a": 1}),
    "characters": lines({"a": "h\u00e9\U0001f600 \u2028"}, {"a": "x\u0000y"}),
    "blank lines": File("json", b'\xef\xbb\xbf{"a":1}\r\n\r\n{"a":2}'),
    "a list of rows": listed([{"a": 1, "b": 2.0}, {"a": 2.5}]),
    "a list of text": listed(["x", "y"]),
    "one object over lines": File("json", json.dumps({"a": 1, "b": [1, 2]}, indent=1).encode()),
    "objects over lines": File("json", b'{\n "a": 1\n}\n{\n "a": 2\n}'),
    "one object a line": listed({"a": [1, 2], "b": ["x", "y"]}),
    "field with rows": listed({"v": 1, "data": [{"a": 1, "b": "x"}, {"a": 2.5}]}, field="data"),
    "field with columns": listed({"data": {"a": [1, 2], "b": ["x", "y"]}}, field="data"),
    "field with text": listed({"data": ["x", "y"]}, field="data"),
    "field with structs": listed({"data": [{"s": {"k": 1}}, {"s": {"k": 2, "z": 3}}]}, field="data"),
    "gzip": File("json", gzip.compress(b'{"a":1}\n')),
    "bzip2": File("json", bz2.compress(b'{"a":1}\n')),
    "xz": File("json", lzma.compress(b'{"a":1}\n')),
}
CSV_FILES = {
    "whole numbers": table("a,b\n1,x\n2,y\n"),
    "a missing number": table("a,b\n1,x\n,y\n"),
    "booleans": table("a,b\nTrue,1\nFALSE,2\n,3\n"),
    "not all are booleans": table("a\nTrue\nyes\n"),
    "zeros before numbers": table("a\n007\n08\n"),
    "spaces": table("a,b\n 1,x \n2 , y\n"),
    "exponents": table("a\n1e3\n.5\n5.\n"),
    "no numbers": table('a,b\n1_000,0x10\n2,"1,000"\n'),
    "signs and quotes": table('a,b\n+5,"1"\n-2,"2"\n'),
    "names twice": table("a,a,,a.1\n1,2,3,4\n"),
    "short rows": table("a,b\n1\n2,3\n"),
    "blank lines": table("a,b\n1,2\n\n   \n3,4\n"),
    "a mark before the first name": table("\ufeffa,b\r\n1,2\r\n"),
    "an empty column": table('a,b\n,x\n"",\n'),
    "no value": table("a\nNA\nx\nnull\nNone\nn/a\n<NA>\n#N/A N/A\n"),
    "large numbers": table("a,b\n9223372036854775807,9223372036854775808\n1,1\n"),
    "numbers of no common type": table("a\n9223372036854775808\n-1\n"),
    "lines in cells": table('a,b\n"x\ny",1\n"say ""hi""",2\nx"y,3\n'),
    "dates stay text": table("a\n2020-01-01\n"),
    "tabs": table("a\tb\n1\tx\n", sep="\t"),
    "delimiter": table("a;b\n1;x\n", delimiter=";"),
    "own names": table("1,x\n2,y\n", column_names=["p", "q"]),
    "own names for others": table("a,b\n2,y\n", names=["p", "q"], header=0),
    "no names": table("1,x\n2,y\n", header=None),
    "no quotes": table('a\tb\n"1\tx"\n', sep="\t", quoting=3),
    "NA is a word": table("a\nNA\nx\n", keep_default_na=False),
    "own sign for no value": table("a,b\n1,-\n-,y\n", na_values="-"),
    "skipped lines": table("zz\na,b\n1,x\n", skiprows=1),
    "gzip": File("csv", gzip.compress(b"a\n1\n")),
}
_TEXT = b"x\r\ny\n\nz\r\n\r\nlast "
TEXT_FILES = {
    "lines": File("text", _TEXT),
    "lines with their ends": File("text", _TEXT, {"keep_linebreaks": True}),
    "paragraphs": File("text", _TEXT, {"sample_by": "paragraph"}),
    "one document": File("text", _TEXT, {"sample_by": "document"}),
    "other line ends": File("text", "x\u2028y\x0bz\n".encode()),
}
FILES = {
    f"{kind}: {name}": file
    for kind, files in (("json", JSON_FILES), ("csv", CSV_FILES), ("text", TEXT_FILES))
    for name, file in files.items()
}

ROWS = [{"a": 3, "b": "x", "c": [1]}, {"a": 1, "b": "y", "c": [2]}, {"a": 2, "b": "x", "c": [3]}]
Library = Any
"""`datasets`, or what stands in for it."""


def rows(library: Library) -> Any:
    return library.Dataset.from_list(ROWS)


def numbers(library: Library, count: int = 10) -> Any:
    return library.Dataset.from_dict({"a": list(range(count))})


def rewritten(library: Library, before: list[Any], after: list[Any]) -> list[Any]:
    """A column written anew."""
    data = library.Dataset.from_dict({"a": before})
    return list(data.map(lambda _, at: {"a": after[at]}, with_indices=True))


def popped(row: Any) -> Any:
    row.pop("a")
    return row


def appended(row: Any, *, give: bool) -> Any:
    row["c"].append(9)
    return row if give else {"d": 1}


def assigned(row: Any) -> Any:
    row["a"] = 99
    row["new"] = 5
    return {"d": 1}


def doubled(batch: Any) -> Any:
    return {"z": [value for value in batch["a"] for _ in range(2)]}


OPERATIONS: dict[str, Callable[[Library], Any]] = {
    "mixed numbers": lambda d: list(d.Dataset.from_list([{"a": 1}, {"a": 2.5}])),
    "structs are filled": lambda d: list(d.Dataset.from_list([{"s": {"x": 1}}, {"s": {"y": 2}}])),
    "lists of structs are filled": lambda d: list(d.Dataset.from_list([{"s": [{"x": 1}, {"y": 2}]}])),
    "the first row has the columns": lambda d: list(d.Dataset.from_list([{"a": 1}, {"b": 2}])),
    "tuples": lambda d: list(d.Dataset.from_list([{"a": (1, 2)}])),
    "dates are text": lambda d: list(d.Dataset.from_list([{"a": "2020-01-01"}])),
    "from columns": lambda d: list(d.Dataset.from_dict({"a": [1, 2.5], "b": ["x", None]})),
    "map adds": lambda d: list(rows(d).map(lambda row: {"d": row["a"] * 2, "a": 7})),
    "map gives the row": lambda d: list(rows(d).map(lambda row: row.update(z=1) or row)),
    "map gives the row without a column": lambda d: list(rows(d).map(popped)),
    "map gives nothing": lambda d: list(rows(d).map(lambda row: row.update(a=9))),
    "map changes inside and gives the row": lambda d: list(rows(d).map(lambda row: appended(row, give=True))),
    "map changes inside": lambda d: list(rows(d).map(lambda row: appended(row, give=False))),
    "map assigns and gives others": lambda d: list(rows(d).map(assigned)),
    "map removes from the row itself": lambda d: list(rows(d).map(lambda row: row, remove_columns=["a"])),
    "map removes": lambda d: list(rows(d).map(lambda _: {"b": 1}, remove_columns=["a", "b"])),
    "map replaces all": lambda d: list(rows(d).map(lambda _: {"d": 1}, remove_columns=rows(d).column_names)),
    "map with indices": lambda d: list(rows(d).map(lambda _, at: {"i": at}, with_indices=True)),
    "map batched": lambda d: list(rows(d).map(lambda batch: {"a": [v * 2 for v in batch["a"]]}, batched=True)),
    "map grows": lambda d: list(rows(d).map(doubled, batched=True, remove_columns=["a", "b", "c"])),
    "map batched with indices": lambda d: list(
        rows(d).map(lambda _, at: {"i": at}, batched=True, with_indices=True, batch_size=2)
    ),
    "map of columns": lambda d: list(rows(d).map(lambda a: {"q": a}, input_columns=["a"])),
    "map with arguments": lambda d: list(rows(d).map(lambda _, k: {"q": k}, fn_kwargs={"k": 5}, num_proc=None)),
    "map orders columns": lambda d: [list(row) for row in rows(d).map(lambda _: {"z": 1, "a": 1, "y": 2})],
    "map mixes numbers": lambda d: list(rows(d).map(lambda row: {"p": row["a"] if row["a"] != 1 else 0.5})),
    "numbers stay numbers": lambda d: rewritten(d, [1, 2], ["3", "4"]),
    "unless one is a word": lambda d: rewritten(d, [1, 2], ["3", "x"]),
    "whole stay whole": lambda d: rewritten(d, [1, 2], [1.0, 2.0]),
    "unless one is not": lambda d: rewritten(d, [1, 2], [1.5, 2.0]),
    "floats stay floats": lambda d: rewritten(d, [1.5, 2.0], [1, 2]),
    "text becomes floats": lambda d: rewritten(d, [1.5, 2.0], ["1", "2.5"]),
    "text does not stay": lambda d: rewritten(d, ["a", "b"], [1, 2]),
    "booleans stay": lambda d: rewritten(d, [True, False], ["true", "False"]),
    "lists become text": lambda d: rewritten(d, [["x"]], ["a"]),
    "null and a number": lambda d: rewritten(d, [1, 2], [None, "3"]),
    "filter": lambda d: list(rows(d).filter(lambda row: row["b"] == "x")),
    "filter by place": lambda d: list(rows(d).filter(lambda _, at: at > 0, with_indices=True)),
    "filter batched": lambda d: list(rows(d).filter(lambda batch: [v > 1 for v in batch["a"]], batched=True)),
    "filter by a column": lambda d: list(rows(d).filter(lambda a: a > 1, input_columns="a")),
    "filter all": lambda d: rows(d).filter(lambda _: False).column_names,
    "filter and map": lambda d: list(rows(d).filter(lambda row: row["a"] > 1).map(lambda r: {"d": r["a"]})),
    "select": lambda d: list(rows(d).select([2, 0])),
    "select a range": lambda d: list(rows(d).select(range(2))),
    "shuffle": lambda d: list(numbers(d).shuffle(seed=42)["a"]),
    "shuffle twice": lambda d: list(numbers(d).shuffle(seed=1).shuffle(seed=2)["a"]),
    "shuffle many": lambda d: list(numbers(d, 1000).shuffle(seed=7)["a"]),
    "sort": lambda d: list(rows(d).sort("b")),
    "sort backwards": lambda d: list(rows(d).sort("b", reverse=True)),
    "sort by two": lambda d: list(rows(d).sort(["b", "a"], reverse=[True, False])),
    "rename": lambda d: list(rows(d).rename_column("a", "z")),
    "rename to each other": lambda d: list(rows(d).rename_columns({"a": "b2", "b": "a2"})),
    "remove": lambda d: list(rows(d).remove_columns("a")),
    "select columns": lambda d: list(rows(d).select_columns(["b", "a"])),
    "add a column": lambda d: list(rows(d).add_column("n", [1, 2, 3])),
    "a slice": lambda d: rows(d)[:2],
    "the last": lambda d: rows(d)[-1],
    "a list of places": lambda d: rows(d)[[0, 2]],
    "a column": lambda d: list(rows(d)["a"]),
    "unique": lambda d: rows(d).unique("b"),
    "to columns": lambda d: rows(d).to_dict(),
    "to rows": lambda d: rows(d).to_list(),
    "two parts": lambda d: parts(numbers(d).train_test_split(test_size=0.25, seed=3)),
    "two parts in order": lambda d: parts(numbers(d).train_test_split(test_size=3, shuffle=False)),
    "two parts by the first": lambda d: parts(numbers(d).train_test_split(train_size=4, seed=1)),
    "flatten": lambda d: list(d.Dataset.from_list([{"s": {"x": 1, "t": {"u": 2}}, "a": 1}]).flatten()),
    "concatenate": lambda d: list(d.concatenate_datasets([rows(d).select([0]), rows(d).select([1])])),
    "take and skip": lambda d: [list(rows(d).take(2)["a"]), list(rows(d).skip(2)["a"])],
    "batches": lambda d: list(rows(d).iter(batch_size=2)),
    "names": lambda d: [rows(d).column_names, list(rows(d).features), rows(d).num_rows, len(rows(d))],
}


def parts(both: Any) -> dict[str, list[Any]]:
    return {name: list(part["a"]) for name, part in both.items()}
