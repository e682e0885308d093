"""Invents documents that fit a task's templates: which variables they use, and as what."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes

FIELDS = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix")
LETTERS = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"]
_NAME = r"[A-Za-z_]\w*"
_NUMERIC = frozenset({"abs", "round", "float"})
_LISTED = frozenset({"join", "first", "last", "map", "select", "reject", "list", "sort", "unique", "batch", "sum"})
_TEXTUAL = frozenset(name for name in dir(str) if name[0] != "_" and name not in ("index", "count"))
_COMPARED = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod)


class Shape:
    """What a variable is used as. A list has one shape for its items, a mapping one for each key."""

    def __init__(self) -> None:
        self.kind = ""
        self.keys: dict[str, Shape] = {}
        self.items: Shape | None = None
        self.known: list[Any] = []

    def become(self, kind: str) -> Shape:
        """The first use decides, unless a later one says more than text."""
        if not self.kind or self.kind == "text":
            self.kind = kind
        return self

    def key(self, name: str) -> Shape:
        """The shape behind a key."""
        self.become("mapping")
        return self.keys.setdefault(name, Shape())

    def item(self) -> Shape:
        """The shape of the items."""
        self.become("list")
        if self.items is None:
            self.items = Shape()
        return self.items

    def value(self, label: str, row: int) -> Any:
        """Something of this shape; texts that are looked up somewhere are letters, others differ by row."""
        if self.kind == "mapping":
            return {key: shape.value(f"{label} {key}", row) for key, shape in self.keys.items()}
        if self.kind == "list":
            return self._list(label, row)
        if self.kind == "number":
            return 1  # a label, whether they begin at 0 or at 1
        if self.known:
            return self.known[row % len(self.known)]
        return f"{label} {row} é" if self.kind != "letter" else "A"

    def _list(self, label: str, row: int) -> list[Any]:
        assert self.items is not None
        if self.items.kind in ("", "text", "letter"):
            return LETTERS[:]
        return [self.items.value(f"{label} {at}", row) for at in range(len(LETTERS))]


class Shapes:
    """The variables of one task."""

    def __init__(self) -> None:
        self.names: dict[str, Shape] = {}
        self._local: dict[str, Shape] = {}

    def column(self, name: str) -> Shape:
        """A variable of the documents."""
        return self.names.setdefault(name, Shape())

    def read(self, source: str) -> None:
        """Learn from one template, or from the name of a column."""
        if re.fullmatch(_NAME, source):
            self.column(source)
            return
        try:
            tree = Environment().parse(source)
        except TemplateSyntaxError:
            return
        self._local = {}
        self._visit(tree)

    def sole(self, source: Any) -> Shape | None:
        """The variable that a template is made of, if it is made of one."""
        if not isinstance(source, str):
            return None
        if re.fullmatch(_NAME, source):
            return self.column(source)
        body = Environment().parse(source.strip()).body
        one = body[0].nodes if len(body) == 1 and isinstance(body[0], nodes.Output) else []
        return self._shape(_stripped(one[0])) if len(one) == 1 else None

    def _visit(self, node: nodes.Node) -> None:
        if isinstance(node, nodes.For):
            found = self._shape(node.iter)
            if found is not None and isinstance(node.target, nodes.Name):
                self._local[node.target.name] = found.item()
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
            self._local[node.target.name] = self._shape(node.node) or Shape()
        if isinstance(node, nodes.Expr):
            self._learn(node)
        for child in node.iter_child_nodes():
            self._visit(child)

    def _learn(self, node: nodes.Expr) -> None:
        """What an expression says of the variables in it."""
        if isinstance(node, (nodes.Name, nodes.Getattr, nodes.Getitem)):
            self._shape(node)
        elif isinstance(node, nodes.Call):
            self._call(node)
        elif isinstance(node, nodes.Filter) and node.node is not None:
            self._filter(node.name, self._shape(node.node))
        elif isinstance(node, nodes.BinExpr) and isinstance(node, _COMPARED):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(other, nodes.Const) and isinstance(other.value, int):
                    self._become(one, "number")
        elif isinstance(node, nodes.Compare):
            self._compare(node)

    def _filter(self, name: str, shape: Shape | None) -> None:
        if shape is None:
            return
        if name == "int":
            shape.known.append("1")
        elif name in _NUMERIC:
            shape.become("number")
        elif name in _LISTED:
            shape.item()

    def _compare(self, node: nodes.Compare) -> None:
        for operand in node.ops:
            value = operand.expr
            if isinstance(value, nodes.Const) and isinstance(value.value, str):
                self._know(node.expr, [value.value])
            elif isinstance(value, nodes.Const) and type(value.value) is int:
                self._become(node.expr, "number")
            elif operand.op in ("in", "notin") and isinstance(value, (nodes.List, nodes.Tuple)):
                self._know(node.expr, _constants(value))

    def _call(self, node: nodes.Call) -> None:
        """`["A", "B"].index(x)` knows what x may be; `labels.index(x)` makes both letters."""
        if not isinstance(node.node, nodes.Getattr):
            return
        if node.node.attr in ("index", "find") and node.args:
            if isinstance(node.node.node, nodes.List):
                self._know(node.args[0], _constants(node.node.node))
                return
            if (inside := self._shape(node.node.node)) is not None and node.node.attr == "index":
                inside.item().become("letter")
            self._become(node.args[0], "letter")

    def _become(self, node: nodes.Node, kind: str) -> None:
        if (shape := self._shape(_stripped(node))) is not None:
            shape.become(kind)

    def _know(self, node: nodes.Node, values: list[Any]) -> None:
        if (shape := self._shape(node)) is not None:
            shape.known += values

    def _shape(self, node: nodes.Node | None) -> Shape | None:
        """The shape that an expression stands for, made on the way; None for what is computed."""
        if isinstance(node, nodes.Name):
            if node.name in ("loop", "range", "namespace", "dict"):
                return None
            return self._local.get(node.name) or self.column(node.name)
        if isinstance(node, nodes.Getattr):
            return self._attribute(node)
        if isinstance(node, nodes.Getitem):
            return self._subscript(node)
        return None

    def _attribute(self, node: nodes.Getattr) -> Shape | None:
        above = self._shape(node.node)
        if above is None:
            return None
        if node.attr in _TEXTUAL:
            above.become("text")
            return None
        return None if node.attr in ("index", "count", "items", "keys", "values") else above.key(node.attr)

    def _subscript(self, node: nodes.Getitem) -> Shape | None:
        above = self._shape(node.node)
        if not isinstance(node.arg, (nodes.Const, nodes.Slice)):
            self._become(node.arg, "number")
        if above is None or isinstance(node.arg, nodes.Slice):
            return None
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return above.key(node.arg.value)
        return above.item()


def _stripped(node: nodes.Node) -> nodes.Node:
    """`x.strip()` is as good as x."""
    return node.node.node if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) else node


def _constants(node: nodes.List | nodes.Tuple) -> list[Any]:
    return [item.value for item in node.items if isinstance(item, nodes.Const)]


def documents(values: dict[str, Any], label: str, count: int) -> list[dict[str, Any]]:
    """Rows for a task with these settings."""
    shapes = Shapes()
    for settings in (values, values.get("fewshot_config") or {}):
        for field in FIELDS:
            if isinstance(source := settings.get(field), str):
                shapes.read(source)
    _choices(values, shapes)
    rows = range(count)
    return [{name: shape.value(f"{label} {name}", row) for name, shape in shapes.names.items()} for row in rows]


def _choices(values: dict[str, Any], shapes: Shapes) -> None:
    """In multiple_choice a bare target is a choice or its number, and bare choices are a list."""
    if values.get("output_type") != "multiple_choice":
        return
    if (options := shapes.sole(values.get("doc_to_choice"))) is not None:
        options.item()
    target = shapes.sole(values.get("doc_to_target"))
    if target is None or target.known:
        return
    if target.kind == "text" and isinstance(values["doc_to_choice"], list):
        target.known = values["doc_to_choice"]
    else:
        target.become("number")
