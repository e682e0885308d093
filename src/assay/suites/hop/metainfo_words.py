"""Words of a `metainfo.md`, English and Chinese: the names of columns, yes and no, and nothing."""

from __future__ import annotations

NONE = ("无", "没有", "none", "n/a", "-", "–", "—", "（无）", "(none)")
# An item of a list that starts with one of these is prose. A field `note` has no capital.
NOTES = ("Note", "NOTE", "Notes", "Remark", "Remarks", "Warning", "备注", "注意", "注", "说明", "提示")

# What a column says about a field, by its key in a contract, with the titles that it may have.
COLUMNS = {
    "name": "name|field|field name|fieldname|parameter|param|key|argument|variable|property|attribute|input|output|"
    "input field|output field|字段|字段名|字段名称|名称|名字|参数|参数名|参数名称|键|键名|变量|变量名|属性|属性名|"
    "输入|输出|输入字段|输出字段",
    "type": "type|data type|datatype|field type|类型|数据类型|字段类型|参数类型",
    "required": "required|mandatory|is required|required?|必填|必需|必须|必选|是否必填|是否必须|是否必需|是否必选",
    "optional": "optional|可选|是否可选|选填",
    "description": "description|desc|meaning|explanation|notes|note|remarks|comment|comments|说明|描述|含义|解释|备注|"
    "字段说明|意义",
    "default": "default|default value|默认|默认值|缺省|缺省值",
    "choices": "choices|values|allowed values|possible values|enum|options|"
    "可选值|取值|取值范围|枚举|枚举值|允许值|值域|选项",
    "example": "example|sample|example value|示例|样例|例子|示例值",
    "label": "label|display label|display name|标签|显示名|显示名称",
    "direction": "direction|in/out|i/o|方向|输入/输出",
    "aggregate": "aggregate|aggregation|agg_type|agg type|聚合|聚合方式|统计|统计方式",
    "compare": "compare|comparison|比较|比较方式|比对|比对方式",
    "tolerance": "tolerance|容差|误差|允许误差",
    "within": "within|允许偏差",
    "bands": "bands|zones|分段|档位|区间",
    "sub_field": "sub_field|sub field|子字段",
}
COLUMN_OF = {name: key for key, names in COLUMNS.items() for name in names.split("|")}
VALUE_COLUMNS = ("value", "values", "content", "值", "内容", "取值")

# Words that say alone whether a field is required; `yes` and `no` say it in a column only.
REQUIRED = ("required", "mandatory", "必填", "必需", "必须", "必选")
OPTIONAL = (
    *("optional", "not required", "not mandatory"),
    *("可选", "选填", "非必填", "不必填", "不必须", "非必需", "非必须", "非必选", "可不填"),
)
YES = (*REQUIRED, "yes", "y", "true", "1", "是", "需要", "✓", "✔", "✅", "☑")
YES_MARKS = ("√", "[x]", "●", "✔️", "☑️")
NO = (*OPTIONAL, "no", "n", "false", "0", "否", "不需要", "✗", "✘", "❌", "×")
NO_MARKS = ("", "-", "–", "—", "[ ]", "○", "☐", "✖", "✖️", "conditional", "条件必填", "视情况")
