"""What the headings of a `metainfo.md` say about their sections: inputs, outputs, an example, or something else.

    for section, kind in zip(sections, section_kinds(sections)):
        ...

Headings are known by many words, English and Chinese.
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
