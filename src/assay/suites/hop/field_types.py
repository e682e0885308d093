"""The types of a contract's fields: their names, which JSON values fit them, and how people write them in Markdown.

fits(3, "int")                          # True
parse_type("List[str], optional")       # array, optional
parse_type("枚举：高/低")                # string, with two choices
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

TYPES = ("int", "float", "bool", "string", "array", "object", "any")
TYPE_ALIASES = {
    "integer": "int",
    "number": "float",
    "double": "float",
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "list": "array",
    "dict": "object",
    "mapping": "object",
    "json": "any",
}

# Further names, only for Markdown. A timestamp may be a text or a number.
_WORDS = {
    **{name: name for name in TYPES},
    **TYPE_ALIASES,
    **dict.fromkeys(("long", "int32", "int64", "uint", "整数", "整型", "整形", "自然数"), "int"),
    **dict.fromkeys(("decimal", "real", "float64", "percentage"), "float"),
    **dict.fromkeys(("浮点", "浮点数", "小数", "数字", "数值", "百分比"), "float"),
    **dict.fromkeys(("flag", "布尔", "布尔值", "布尔型", "真假"), "bool"),
    **dict.fromkeys(("varchar", "char", "date", "datetime", "time", "url", "uri", "path", "file"), "string"),
    **dict.fromkeys(("email", "markdown", "html", "uuid", "enum", "literal"), "string"),
    **dict.fromkeys(("字符串", "文本", "字符", "日期", "时间", "枚举", "枚举值"), "string"),
    **dict.fromkeys(("tuple", "set", "sequence", "数组", "列表", "集合"), "array"),
    **dict.fromkeys(("map", "struct", "record", "typeddict", "对象", "字典", "映射"), "object"),
    **dict.fromkeys(("timestamp", "任意", "任意类型", "时间戳", "object or array"), "any"),
}
_ENUMS = ("enum", "literal", "枚举", "枚举值")
_NULLS = ("null", "none", "nil", "undefined", "空")
_OPTIONAL = re.compile(
    r"[,，;；\s(（]*\b(optional|nullable)\b\s*[)）]?|[,，;；\s(（]*(可选|选填|可空|可为空)\s*[)）]?"
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*|[\u4e00-\u9fff]+")
# What may follow the name of a type: brackets, a list of values, or `of string`.
_REST = re.compile(r"\s*($|\[|<|\(|（|:|：|,|，|;|；|/)|\s+of\b")
_VALUE_SEPARATORS = re.compile(r"\s*[|,，、/;；]\s*|\s+or\s+|\s*或\s*")
_MAX_CHOICE = 80  # characters; a longer value is a sentence

_FITS: dict[str, Callable[[Any], bool]] = {
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "any": lambda _: True,
}


def fits(value: Any, type_: str) -> bool:
    """Return True if a JSON value has a type of the contract. An int is a float too; a bool is not a number."""
    return _FITS[type_](value)


class TypeText(NamedTuple):
    """A type as a person wrote it. `note` is the rest of the text, such as a range."""

    type: str
    optional: bool = False
    choices: tuple[Any, ...] = ()
    note: str = ""


def parse_type(text: str) -> TypeText | None:
    """Return the type that a cell or a list item names, or None if there is no such type. Empty text is any type."""
    plain = plain_text(text)
    optional = plain.endswith("?") or _OPTIONAL.search(plain) is not None
    plain = _OPTIONAL.sub("", plain.removesuffix("?")).strip(" ,，;；")
    if wrapped := re.fullmatch(r"optional\s*\[(.+)\]", plain, re.IGNORECASE):
        optional, plain = True, wrapped[1].strip()
    if not plain or plain in "-–—/":
        return TypeText("any", optional)
    parts = [part.strip() for part in re.split(r"\||\bor\b|\s/\s|或", plain) if part.strip()]
    if any(part.lower() in _NULLS for part in parts) and len(parts) > 1:
        optional = True
        parts = [part for part in parts if part.lower() not in _NULLS]
    if all(re.fullmatch(r"([\"'“”‘’]).*[\"'“”‘’]", part) for part in parts):
        return TypeText("string", optional, tuple(part[1:-1] for part in parts))
    types = [_single_type(part) for part in parts]
    if len(parts) == 1 or types[0] is None or any(part is None for part in types):
        # A bar may also separate the values of an enum, so the text is one type unless each part is one.
        whole = _single_type(plain) if len(parts) > 1 else types[0]
        return whole._replace(optional=optional or whole.optional) if whole else None
    names = {part.type for part in types if part is not None}
    type_ = names.pop() if len(names) == 1 else "float" if names == {"int", "float"} else "any"
    return TypeText(type_, optional)


def _single_type(text: str) -> TypeText | None:
    word = _WORD.match(text)
    if word is None:
        return None
    if word[0].endswith(("数组", "列表")):  # 字符串数组: a list of texts
        return TypeText("array", note="" if word[0] in _WORDS else text)
    if (type_ := _WORDS.get(word[0].lower())) is None:
        return None
    rest = text[word.end() :]
    follows = _REST.match(rest)
    if follows is None or ("of" in follows[0] and type_ not in ("array", "object")):
        return None
    if rest.startswith("[]"):
        return TypeText("array", note=text)
    inner = rest.strip(" :：,，;；()（）[]<>")
    if word[0].lower() in _ENUMS:
        choices = parse_choices(inner, "string")
        return TypeText("string", choices=choices, note="" if choices else inner)
    # `int 1/2/3` is a type with values; `array<string>` only says more about the items.
    choices = parse_choices(inner, type_) if type_ in ("int", "float", "string") else ()
    return TypeText(type_, choices=choices, note="" if choices else inner)


def parse_choices(text: str, type_: str) -> tuple[Any, ...]:
    """Return the values that a text lists, or () if it does not list at least two values of the type."""
    parts = [
        plain_text(part).strip("\"'“”‘’") for part in _VALUE_SEPARATORS.split(plain_text(text).strip("[]"))
    ]
    parts = [part for part in parts if part]
    if len(parts) < 2 or type_ not in ("int", "float", "string") or max(map(len, parts)) > _MAX_CHOICE:
        return ()
    if type_ == "string":
        return tuple(parts)
    numbers = [parse_number(part) for part in parts]
    return tuple(numbers) if all(number is not None and fits(number, type_) for number in numbers) else ()


def parse_number(text: str) -> int | float | None:
    """Return the number in a text, or None."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return None


def plain_text(text: str) -> str:
    """Return Markdown text without marks around it: backquotes, stars of bold text, `<br>` and `&nbsp;`."""
    text = re.sub(r"<br\s*/?>|&nbsp;", " ", text).replace("\\|", "|").replace("`", "")
    return re.sub(r"\*\*|__", "", text).strip()
