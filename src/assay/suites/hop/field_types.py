"""The types of a contract's fields: their names, which JSON values fit them, and how people write them in Markdown.

fits(3, "int")                          # True
parse_type("List[str], optional")       # array, optional
parse_type("枚举：高/低")                # string, with two choices
parse_type("0-10的整数")                 # int, with the text as a note
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from assay.core.errors import similar_names
from assay.suites.hop.contract_words import OPTIONAL, REQUIRED

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
    **dict.fromkeys(("long", "int32", "int64", "uint", "整数", "正整数", "整型", "整形", "自然数"), "int"),
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


def _remark(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for one of these words in a type, with the comma or the brackets around it."""
    english = "|".join(word for word in words if word.isascii())
    chinese = "|".join(word for word in words if not word.isascii())
    return re.compile(rf"[,，;；\s(（]*(\b({english})\b|({chinese})(?!值))\s*[)）]?", re.IGNORECASE)


# The longer words first: 非必填 has 必填 in it.
_OPTIONAL = _remark((*sorted(OPTIONAL, key=len, reverse=True), "nullable", "可空", "可为空"))
_REQUIRED = _remark(REQUIRED)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*|[\u4e00-\u9fff]+")
# What may follow the name of a type: brackets, a list of values, or `of string`.
_REST = re.compile(r"\s*($|\[|<|\(|（|:|：|,|，|;|；|/)|\s+of\b")
_RANGE = r"[<>≤≥=]*\s*-?\d[\d.]*%?(?:\s*(?:-|–|—|~|～|到|至|to|\.\.+)\s*-?\d[\d.]*%?)?(?:之间)?"
_RANGE_BEHIND = re.compile(rf"\s*{_RANGE}$")  # `整数 1-5`, `float >= 0`
_RANGE_BEFORE = re.compile(rf"{_RANGE}\s*的?\s*([^\W\d].*)")  # `0-10的整数`, `0-1 number`
# Words that mean nothing but a type, so that any remark may follow: `string the text`.
_CLEAR = ("int", "integer", "float", "double", "bool", "boolean", "string", "str")
_CLEAR_CHINESE = ("整数", "整型", "浮点数", "小数", "布尔", "布尔值", "字符串")
# `non-empty string`, `UTF-8 字符串`. Lists are not among them: a comma-separated list is a text.
_TYPE_LAST = re.compile(
    rf"(?:(?:[^,，;；:：()（）.。|/]|\.\d){{0,40}}(?<![A-Za-z_]))?({'|'.join((*_CLEAR, *_CLEAR_CHINESE))})"
    r"(?:类型|型|\s+value|\s+type)?(?:\s*[(（].*[)）])?",
    re.IGNORECASE,
)
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
    plain = re.sub(r"^<([^<>]+)>$", r"\1", plain_text(text))  # a placeholder: `<string>`
    wrapped = re.fullmatch(r"optional\s*\[(.+)\]", plain, re.IGNORECASE)
    plain = wrapped[1].strip() if wrapped else plain
    optional = wrapped is not None or plain.endswith("?") or _OPTIONAL.search(plain) is not None
    plain = _REQUIRED.sub("", _OPTIONAL.sub("", plain.removesuffix("?"))).strip(" ,，;；")
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
        whole = (_single_type(plain) if len(parts) > 1 else types[0]) or _bar_values(parts)
        return whole._replace(optional=optional or whole.optional) if whole else None
    names = {part.type for part in types if part is not None}
    type_ = names.pop() if len(names) == 1 else "float" if names == {"int", "float"} else "any"
    return TypeText(type_, optional)


def _bar_values(parts: list[str]) -> TypeText | None:
    """Return the type of `high|medium|low`. None if a part is no single word, or a type or nearly one."""
    if len(parts) < 2 or not all(re.fullmatch(r"[\w.+-]{1,30}", part) for part in parts):
        return None
    if {part.lower() for part in parts} == {"true", "false"}:
        return TypeText("bool")
    if any(_single_type(part) or similar_names(part, TYPES) for part in parts):
        return None
    numbers = parse_choices("|".join(parts), "float")
    if numbers:
        return TypeText("int" if all(isinstance(number, int) for number in numbers) else "float", choices=numbers)
    return TypeText("string", choices=tuple(parts))


def is_clear_type(text: str) -> bool:
    """Return whether a text can only be a type: `int 1-5` is one, while `text` and `date` may be values too."""
    type_ = parse_type(text)
    words = _WORD.findall(plain_text(text).lower())
    clear = (*_CLEAR, *_CLEAR_CHINESE, "number", "array", "数组")
    return type_ is not None and (bool(type_.choices) or any(word.endswith(clear) for word in words))


def _single_type(text: str) -> TypeText | None:
    if re.fullmatch(r"\{.*\}|\[.*\]", text):  # `{"name": "string"}`, `[string]`
        return TypeText("object" if text[0] == "{" else "array", note=text)
    word = _WORD.match(text)
    if word is not None and word[0].endswith(("数组", "列表")):  # 字符串数组: a list of texts
        return TypeText("array", note="" if word[0] in _WORDS else text)
    if (before := _RANGE_BEFORE.fullmatch(text)) and (type_text := _single_type(before[1])):
        return type_text._replace(note=text)
    type_ = _WORDS.get(word[0].lower()) if word is not None else None
    rest = text[word.end() :] if word is not None else ""
    if word is None or type_ is None or not _is_remark(word[0].lower(), type_, rest):
        last = _TYPE_LAST.fullmatch(text)
        return TypeText(_WORDS[last[1].lower()], note=text) if last else None
    if rest.startswith("[]"):
        return TypeText("array", note=text)
    inner = rest.strip(" :：,，;；()（）[]<>")
    if word[0].lower() in _ENUMS:
        choices = parse_choices(re.sub(r"^(可选值|取值|values?)\s*[:：]?", "", inner), "string")
        return TypeText("string", choices=choices, note="" if choices else inner)
    # `int 1/2/3` is a type with values; `array<string>` only says more about the items.
    choices = parse_choices(inner, type_) if type_ in ("int", "float", "string") else ()
    if rest[:1].isspace() and any(" " in str(choice) for choice in choices):
        choices = ()  # `string the text, or nothing` is a remark
    return TypeText(type_, choices=choices, note="" if choices else inner)


def _is_remark(word: str, type_: str, rest: str) -> bool:
    """Return whether a text may follow the name of a type. `number of items` is no type."""
    if word in _CLEAR and re.match(r"\s+[^\s|]", rest):
        return True
    if follows := _REST.match(rest):
        return "of" not in follows[0] or type_ in ("array", "object")
    return _RANGE_BEHIND.match(rest) is not None


def parse_choices(text: str, type_: str) -> tuple[Any, ...]:
    """Return the values that a text lists, or () if it does not list at least two values of the type."""
    parts = [plain_text(part).strip("\"'“”‘’") for part in _VALUE_SEPARATORS.split(plain_text(text).strip("[]"))]
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
