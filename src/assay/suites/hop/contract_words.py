"""What the words of a `metainfo.md` mean: its headings, the titles of columns, yes and no.

    for section, kind in zip(sections, section_kinds(sections)):
        ...
    column_of("必填？")    # required

All of them are known by many words, English and Chinese.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from assay.suites.hop.markdown import MarkdownSection

# `Input example` and `Output metrics` are not about fields, so these words win.
_OTHER_HEADING = re.compile(
    r"备注|变更|错误码|约束|规则|校验|指标|性能|依赖|版本|"
    r"\b(notes?|changes?|changelog|errors?|rules?|constraints?|validation|metrics?|versions?|"
    r"performance|dependenc(y|ies))\b"
)
_INPUT_HEADING = re.compile(r"输入|入参|\binputs?\b|^(参数|parameters?|arguments?)$")
_OUTPUT_HEADING = re.compile(r"输出|出参|返回|\b(outputs?|returns?)\b")
# `Response time` is about speed.
_RESPONSE_HEADING = re.compile(r"响应(?!时间|速度|码)|\bresponses?\b(?! (times?|codes?))")
HEADING_WORDS = ("input", "inputs", "output", "outputs")
_EXAMPLE_HEADING = re.compile(r"示例|样例|例子|\b(examples?|samples?)\b")
# Blocks below such a heading show a call.
_USE_HEADING = re.compile(r"用法|调用|演示|\b(usage|calls?|calling|demo|quick ?start|how to)\b")
# `Input contract (version 2)` is about fields, although it has a word of another heading.
_FIELDS_HEADING = re.compile(r"契约|字段|参数|\b(contract|fields?|schema|parameters?|arguments?)\b")
_REQUIRED_HEADING = re.compile(r"必填|必需|必选|\brequired\b")
OPTIONAL_HEADING = re.compile(r"可选|选填|非必填|\boptional\b")

_META = {
    "name": "name|hoplet|hoplet name|hoplet 名称|名称|任务名|任务名称",
    "version": "version|版本|版本号",
    "function": "function|hop_func_name|main function|entry|entry point|函数|函数名|主函数|入口|入口函数",
    "audit_key": "audit_key|audit_key_field",
}
META_OF = {name: key for key, names in _META.items() for name in names.split("|")}

NONE = ("无", "没有", "none", "n/a", "-", "–", "—", "（无）", "(none)")
# An item of a list that starts with one of these is prose. A field `note` has no capital.
NOTES = ("Note", "NOTE", "Notes", "Remark", "Remarks", "Warning", "备注", "注意", "注", "说明", "提示")

# What a column says about a field, by its key in a contract, with the titles that it may have.
_COLUMNS = {
    "name": "name|field|field name|fieldname|parameter|param|key|argument|variable|property|attribute|input|output|"
    "input field|output field|字段|字段名|字段名称|名称|名字|参数|参数名|参数名称|键|键名|变量|变量名|属性|属性名|"
    "输入|输出|输入字段|输出字段",
    "type": "type|data type|datatype|field type|类型|数据类型|字段类型|参数类型",
    "required": "required|mandatory|is required|is mandatory|必填|条件必填|必需|必须|必选|"
    "是否必填|是否必须|是否必需|是否必选",
    "optional": "optional|可选|是否可选|选填",
    "description": "description|desc|meaning|explanation|notes|note|remarks|comment|comments|说明|描述|含义|解释|备注|"
    "字段说明|意义",
    "default": "default|default value|默认|默认值|缺省|缺省值",
    "choices": "choices|values|allowed values|possible values|enum|options|"
    "可选值|取值|取值范围|枚举|枚举值|允许值|值域|选项",
    "example": "example|sample|example value|示例|样例|例子|示例值",
    "label": "label|display label|display name|标签|显示名|显示名称",
    "direction": "direction|in/out|input/output|input / output|i/o|方向|输入/输出|输入 / 输出",
    "aggregate": "aggregate|aggregation|agg_type|agg type|聚合|聚合方式|统计|统计方式",
    "compare": "compare|comparison|比较|比较方式|比对|比对方式",
    "tolerance": "tolerance|容差|误差|允许误差",
    "within": "within|允许偏差",
    "bands": "bands|zones|分段|档位|区间",
    "sub_field": "sub_field|sub field|子字段",
}
_COLUMN_OF = {name: key for key, names in _COLUMNS.items() for name in names.split("|")}
COLUMN_TITLES = tuple(_COLUMN_OF)
VALUE_COLUMNS = ("value", "values", "content", "值", "内容", "取值")

# Words that say alone whether a field is required; `yes` and `no` say it in a column only.
REQUIRED = ("required", "mandatory", "必填", "必需", "必须", "必选")
OPTIONAL = (
    *("optional", "not required", "not mandatory", "conditional", "conditionally required"),
    *("可选", "选填", "非必填", "不必填", "不必须", "非必需", "非必须", "非必选", "可不填"),
    *("条件必填", "视情况"),
)
YES = (*REQUIRED, "yes", "y", "true", "1", "是", "需要", "✓", "✔", "✅", "☑")
YES_MARKS = ("√", "[x]", "●", "✔️", "☑️")
NO = (*OPTIONAL, "no", "n", "false", "0", "否", "不需要", "✗", "✘", "❌", "×")
NO_MARKS = ("", "-", "–", "—", "[ ]", "○", "☐", "✖", "✖️")


def section_kinds(sections: Sequence[MarkdownSection]) -> list[str]:
    """Return the kind of every section by its own heading, else by the one above it.

    The title of the file, its only heading of the first level, is the name of the task: `# Error classifier`.
    """
    kinds: list[str] = []
    has_title = sum(section.level == 1 for section in sections) == 1
    above: list[tuple[int, str]] = []  # level and kind of the headings above
    for section in sections:
        while above and above[-1][0] >= section.level:
            above.pop()
        kind = heading_kind(section.title) or (above[-1][1] if above else "")
        names_fields = any(words.search(section.title.lower()) for words in (_INPUT_HEADING, _OUTPUT_HEADING))
        is_name = has_title and section.level == 1 and not names_fields
        kinds.append("" if is_name else kind)
        above.append((section.level, kinds[-1]))
    return kinds


def heading_kind(title: str) -> str:
    """Return inputs, outputs, both, example, other, or "" if the heading says nothing about its section."""
    text = title.lower()
    is_input = _INPUT_HEADING.search(text)
    is_output = _OUTPUT_HEADING.search(text) or _RESPONSE_HEADING.search(text)
    is_fields = (is_input or is_output) and _FIELDS_HEADING.search(text)
    if _EXAMPLE_HEADING.search(text):
        return "example"
    if _OTHER_HEADING.search(text) and not is_fields:
        return "other"
    if is_input and is_output:
        return "both"
    if is_input or is_output:
        return "inputs" if is_input else "outputs"
    return "example" if _USE_HEADING.search(text) and not _FIELDS_HEADING.search(text) else ""


def is_heading(title: str) -> bool:
    """Return whether an item of a list that is all bold is a heading. Any other is the name of a field."""
    text = title.lower()
    if _RESPONSE_HEADING.fullmatch(text) or _USE_HEADING.fullmatch(text):
        return False  # more often a field than a heading
    words = (_FIELDS_HEADING, OPTIONAL_HEADING, _REQUIRED_HEADING)
    return bool(heading_kind(title)) or text in META_OF or any(word.search(text) for word in words)


def column_of(title: str) -> str | None:
    """Return what a column says about a field, or None. A remark changes nothing: `Mandatory?`, `必填（是/否）`.

    A title in two languages counts if both parts mean the same: `字段 / Field`.
    """
    plain = re.sub(r"\s*[(（].*[)）]", "", title.lower()).rstrip(" ?？:：")
    if key := _COLUMN_OF.get(title.lower()) or _COLUMN_OF.get(plain):
        return key
    keys = {_COLUMN_OF.get(part) for part in re.split(r"[\s/]+", plain)}
    return keys.pop() if len(keys) == 1 else None
