"""The HTML page of a comparison: complete, self-contained, and safe whatever the texts are."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from assay.store.comparison import ComparisonResult, compare
from assay.store.render.html import comparison_html
from assay.store.render.latex import comparison_latex
from assay.store.render.markdown import comparison_markdown

from support.runs import Made, passed

HOSTILE = (
    "</pre></bdi><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)> & "
    "[a](javascript:alert(4)) | `x` ``` \x1b[31m\x07 \u202eright\u2066 @name #12\n# heading\n</details>"
)
# Elements without an end tag.
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Reads a page: the elements with their attributes, the text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def hostile(tmp_path: Path) -> ComparisonResult:
    """Two runs in which every name and text is hostile."""
    runs = []
    for name, value in (("base", 1), ("new", 0)):
        run = Made(tmp_path / name, model=HOSTILE)
        score = {
            **passed(value, HOSTILE, filtered=[f"{HOSTILE} {name} {value}"]),
            "metric": HOSTILE,
            "expected": HOSTILE,
            "reason": HOSTILE,
        }
        run.case(HOSTILE, [score], within=HOSTILE, subject=HOSTILE, tags=(HOSTILE,))
        run.case(f"{name} {HOSTILE}", [score], within=HOSTILE, subject=HOSTILE)
        runs.append(str(run.finish(parts="filters")))
    return compare(runs, by="tag")


def test_hostile_texts_are_shown_and_do_nothing(hostile: ComparisonResult) -> None:
    """They make no element and no attribute. Control characters, also those of direction, are replaced."""
    page = Page(comparison_html(hostile))
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "h3",
        "p",
        "div",
        "table",
        "thead",
    }
    allowed |= {
        "tbody",
        "tr",
        "th",
        "td",
        "bdi",
        "br",
        "strong",
        "span",
        "ul",
        "li",
        "section",
        "article",
        "pre",
    }
    allowed |= {"details", "summary", "svg", "line", "circle", "del", "ins", "a"}
    assert {name for name, _ in page.elements} <= allowed
    for name, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("src", "style")], name
    assert not page.named("a"), "a single comparison has no links"
    assert page.text.count("<script>alert(1)</script>") > 10
    assert not set("\x07\x1b\u202e\u2066") & set(page.text)


def test_the_page_forbids_scripts_and_loads_nothing(hostile: ComparisonResult) -> None:
    """The policy allows exactly the style of the page."""
    text = comparison_html(hostile)
    (policy,) = [each["content"] for each in Page(text).named("meta") if "http-equiv" in each]
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_markdown_of_hostile_texts_has_no_element_of_theirs(hostile: ComparisonResult) -> None:
    """Outside of code blocks, the only HTML is that of the folded parts."""
    text = comparison_markdown(hostile)
    outside, fence = [], ""
    for line in text.splitlines():
        mark = re.match("`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif mark:
            fence = mark[0]
        else:
            outside.append(line)
    assert not fence
    rest = "\n".join(outside)
    assert set(re.findall("<[^>]*>", rest)) <= {"<details>", "<summary>", "</summary>", "</details>"}
    assert rest.count("<details>") == rest.count("</details>") == 2
    assert not re.search(r"^# ", rest, re.MULTILINE)
    assert not set("\x07\x1b\u202e\u2066") & set(text)
    for line in outside:
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (11, 6), line


def test_an_interval_is_a_bar_on_the_scale_of_its_metric(tmp_path: Path) -> None:
    """A metric with large numbers does not flatten the others. The words are those of the table."""
    runs = []
    for name, shift in (("base", 0.0), ("new", 1.0)):
        run = Made(tmp_path / name)
        for number in range(8):
            run.case(
                f"k{number}",
                [
                    {"metric": "small", "value": number + shift * (1 + number % 3)},
                    {"metric": "large", "value": 1000 * (number + shift * (1 + number % 3))},
                    {"metric": "same", "value": 1.5},
                ],
            )
        runs.append(str(run.finish()))
    text = comparison_html(compare(runs))
    bars = re.findall(r"<svg.*?</svg>", text)
    small, large, same = (re.findall(r'cx="([\d.]+)"', bar) for bar in bars)
    assert small == large
    assert same == ["80.0"], "no difference is in the middle"
    ends = [float(end) for end in re.findall(r'class="bar" x1="([\d.]+)" x2="([\d.]+)"', bars[0])[0]]
    assert 80 < ends[0] < ends[1] == 156
    assert 'aria-label="difference +1.8750, 95% interval' in bars[0]
    assert text.count('class="verdict better"') == 2


def test_words_that_differ_are_marked_on_their_side(tmp_path: Path) -> None:
    runs = []
    for name, word in (("base", "third"), ("new", "fourth")):
        run = Made(tmp_path / name)
        run.case("a", [passed(name == "base", filtered=[f"it was on the {word} of May"])])
        runs.append(str(run.finish()))
    text = comparison_html(compare(runs))
    assert "<bdi>it was on the <del>third </del>of May</bdi>" in text
    assert "<bdi>it was on the <ins>fourth </ins>of May</bdi>" in text


def test_several_comparisons_have_an_overview_with_links(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two", "three"):
        run = Made(tmp_path / name)
        run.case("a", [passed(name != "three")])
        runs.append(str(run.finish()))
    page = Page(comparison_html(compare(runs)))
    sections = [each["id"] for each in page.named("section")]
    assert [each["href"] for each in page.named("a")] == [f"#{name}" for name in sections]
    assert len(sections) == 2
    assert len(page.named("svg")) == 4, "each row is in the overview and in its comparison"


def test_a_value_that_was_not_measured_has_no_bar(tmp_path: Path) -> None:
    runs = []
    for name in ("base", "new"):
        run = Made(tmp_path / name)
        run.case("a", [passed(None, status="invalid")])
        runs.append(str(run.finish()))
    page = Page(comparison_html(compare(runs)))
    assert not page.named("svg")
    assert "set passed: 1 left out, invalid in both" in page.text


def test_the_latex_of_hostile_texts_has_one_row_a_line(hostile: ComparisonResult) -> None:
    """Ampersands and line ends of a text would make cells and rows, so they are escaped."""
    text = comparison_latex(hostile)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(lines) == 4, "a header and a row for the metric and for the slice"
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {9}
    assert not set("\x07\x1b\u202e\u2066`") & set(text)
