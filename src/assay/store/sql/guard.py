"""Checks a query before it runs: one SELECT statement over the views, without functions that leave them.

DuckDB's settings (`RunDatabase`) already forbid files, network, extensions and settings. This check is the second lock.
It reads the statement as DuckDB parsed it, so comments, quotes and spelling do not matter. Tables and table functions
are allowed by name; all others are refused, also those of later versions of DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from assay.core.errors import UsageError, unknown

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Table functions that compute rows from their arguments only.
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree", "repeat", "repeat_row"})
# Scalar functions that show the settings of the process, change its state, write or wait.
_REFUSED = frozenset(
    {
        "current_connection_id",
        "current_query",
        "current_query_id",
        "current_setting",
        "current_transaction_id",
        "currval",
        "getenv",
        "getvariable",
        "json_execute_serialized_sql",
        "json_serialize_plan",  # with `optimize`, it evaluates functions that nobody has checked
        "nextval",
        "parse_duckdb_log_message",
        "set_config",
        "setseed",
        "setval",
        "sleep_ms",
        "stats",
        "txid_current",
        "write_log",
    }
)
_READERS = re.compile(r"^(read_|.*_scan$|query|glob$|sniff_|parquet_|duckdb_|pragma_)")


class CheckedQuery(msgspec.Struct, frozen=True):
    """A query that passed the check, and what it may read.

    `names` are all names in it, in lower case. `has_star` is True if it may read columns that it does not name.
    """

    text: str
    names: frozenset[str]
    views: frozenset[str]
    has_star: bool

    def reads(self, view: str, columns: Collection[str]) -> bool:
        """Return whether the query may read one of these columns of a view. A wrong True costs only time."""
        return view in self.views and (self.has_star or not self.names.isdisjoint(columns))


def check_query(connection: DuckDBPyConnection, text: str, views: Collection[str]) -> CheckedQuery:
    """Return the query, or raise UsageError if it is not one SELECT over these views."""
    import duckdb

    text = text.strip().rstrip(";").rstrip()
    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise UsageError(f"the query cannot be read: {_first_paragraph(error)}") from None
    if len(statements) != 1:
        raise UsageError(
            "the query is empty. Write a SELECT over the views; `.views` lists them"
            if not statements
            else f"there are {len(statements)} statements. Pass one SELECT at a time"
        )
    try:
        kind = statements[0].type.name
    except ValueError:  # duckdb's Python package has no name for every kind of statement
        kind = "another statement"
    if kind != "SELECT":
        hint = ". For PIVOT, list the values: `from (pivot VIEW on COLUMN in ('a', 'b') using ...)`"
        raise UsageError(
            f"only SELECT is allowed, because queries never change anything; this is {kind}"
            f"{hint if kind == 'MULTI' else ''}"
        )
    (serialized,) = connection.execute("select json_serialize_sql(?::varchar)", [text]).fetchone() or ("{}",)
    tree = msgspec.json.decode(serialized)
    if tree.get("error", True):
        raise UsageError(f"the query cannot be checked: {tree.get('error_message', 'unknown reason')}")
    return _check_tree(tree, text, views)


def _check_tree(tree: Any, text: str, views: Collection[str]) -> CheckedQuery:
    scopes = list(_nodes(tree))
    nodes = [node for node, _ in scopes]
    tables = {str(node.get(key, "")).lower() for node in nodes for key in ("table_name", "alias")}
    seen: set[str] = set()
    has_star = False
    for node, ctes in scopes:
        kind = node.get("type")
        if kind in ("STAR", "PIVOT", "SHOW_REF"):
            has_star = True
        elif kind == "COLUMN_REF":
            # `select scores from scores` returns whole rows.
            column_names = node.get("column_names", [])
            has_star = has_star or (len(column_names) == 1 and column_names[0].lower() in tables)
        if kind == "BASE_TABLE":
            seen.add(_check_table(node, views, ctes))
        elif kind == "SHOW_REF" and not node.get("query"):
            raise UsageError("SHOW is not allowed. `.views` lists the views, `describe VIEW` the columns of one")
        elif kind == "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise UsageError(_refused_function(name))
        elif kind == "VALUE_PARAMETER":
            raise UsageError("the query has a parameter ($1 or ?). Write the value in its place")
        function = node.get("function_name")
        if isinstance(function, str) and (function.lower() in _REFUSED or _READERS.match(function.lower())):
            raise UsageError(_refused_function(function))
    names = frozenset(value.lower() for value in _texts(tree))
    return CheckedQuery(text, names, frozenset(seen & set(views)), has_star)


def _check_table(node: dict[str, Any], views: Collection[str], ctes: frozenset[str]) -> str:
    name = str(node.get("table_name", ""))
    place = [str(node[key]) for key in ("catalog_name", "schema_name") if node.get(key)]
    if place:
        raise UsageError(f"{'.'.join([*place, name])} is not one of the views: {', '.join(views)}")
    if name.lower() in views or name.lower() in ctes:
        return name.lower()
    if "/" in name or "." in name or "*" in name:
        raise UsageError(
            f"{name!r} is a file, and queries read only the views: {', '.join(views)}. "
            "Name a result file after the query, as FILE"
        )
    raise UsageError(unknown("view", name, list(views)))


def _refused_function(name: str) -> str:
    return f"the function {name} is not allowed: queries read only the views, no files, network or settings"


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield every object in a JSON value, with the names of WITH that can be seen there.

    Elsewhere such a name would be that of a table of DuckDB or of a file. Not recursive, because a query may be nested
    deeply.
    """
    stack: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        item, names = stack.pop()
        if isinstance(item, list):
            stack.extend((each, names) for each in item)
        if not isinstance(item, dict):
            continue
        ctes = item.get("cte_map")
        for cte in ctes.get("map", []) if isinstance(ctes, dict) else []:
            # Each sees those before it.
            stack.append((cte["value"], names))
            names |= {str(cte["key"]).lower()}
        yield item, names
        own = {str(item["cte_name"]).lower()} if isinstance(item.get("cte_name"), str) else set()
        for key, value in item.items():
            if key != "cte_map":
                # A recursive query sees itself in its second part only.
                stack.append((value, names | own if key == "right" else names))


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, str):
            yield item


def _first_paragraph(error: Exception) -> str:
    """Return DuckDB's message with the line that it points at, and without its advice to change settings."""
    return str(error).split("\n\nPossible solutions", 1)[0].strip()
