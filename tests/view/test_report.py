"""`assay report`: one file with the numbers and failed rows of runs, whatever their texts are."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from assay.core.report import Entry, Interval, Metric, Report, Slice
from assay.core.types import Usage
from assay.view.report import report_html
from view.hostile import STRINGS, write_hostile_run
from view.test_hostile import ATTRIBUTES, TAGS, UNSEEN

from support.commands import typed
from support.runs import Made, passed
from support.web import Page


def made_run(folder: Path, wrong: int, *, suite: str = "made") -> Path:
    """A run of 20 cases, the first ones wrong."""
    made = Made(folder, suite=suite, model="vendor/model-7")
    for number in range(20):
        score = {**passed(number >= wrong, filtered=[f"reply {number}"]), "expected": f"target {number}"}
        made.case(f"case-{number:02}", [score], seconds=number / 10, usage=Usage(5, 7), label=f"question {number}")
    share = (20 - wrong) / 20
    metric = Metric(
        name="passed",
        value=share,
        numerator=20 - wrong,
        denominator=20,
        interval=Interval(share - 0.2, share + 0.2),
    )
    missing = Metric(name="judged", value=None, denominator=0, reason="no judge was named")
    entry = Entry(name="m", metrics=[metric, missing], slices=[Slice(by="tag", name="red", metrics=[metric])])
    return made.finish(report=Report(entries=[entry]))


def words_of(source: str) -> str:
    body = re.sub("<style>.*?</style>", "", source, flags=re.DOTALL)
    return " ".join(Page(body).text.split())


def test_a_report_has_numbers_slices_distributions_and_the_first_failed_rows(tmp_path: Path) -> None:
    words = words_of(report_html([str(made_run(tmp_path / "one", 5))], cases=3))
    assert "0.750 0.550 to 0.950 15 of 20" in words
    assert "judged– – 0 no judge was named" in words
    assert "m by tag" in words
    assert "median 0.95" in words
    assert "The first 3 of 5 rows" in words
    assert "question 2 failed passed 0.000" in words
    assert "expected target 2" in words
    assert "question 3" not in words


def test_several_runs_are_compared_first_and_no_id_occurs_twice(tmp_path: Path) -> None:
    runs = [str(made_run(tmp_path / "before", 2)), str(made_run(tmp_path / "after", 6))]
    source = report_html(runs, cases=2)
    words = words_of(source)
    assert words.index("2 runs") < words.index("Comparison") < words.index("Now failing: 4")
    assert "0.90000.7000-0.2000" in words
    ids = Counter(attributes["id"] for _, attributes in Page(source).elements if "id" in attributes)
    assert set(ids.values()) == {1}
    links = [attributes["href"] for tag, attributes in Page(source).elements if tag == "a"]
    assert links
    assert all(link.removeprefix("#") in ids for link in links), "a file has no other pages to link to"


def test_runs_that_cannot_be_compared_are_shown_with_the_reason(tmp_path: Path) -> None:
    other = made_run(tmp_path / "other", 3, suite="another")
    words = words_of(report_html([str(made_run(tmp_path / "one", 5)), str(other)]))
    assert "These runs are not compared:" in words
    assert "only runs of one suite can be compared" in words
    assert "15 of 20" in words
    assert "17 of 20" in words


def test_a_run_that_is_not_finished_is_reported_as_far_as_it_is(tmp_path: Path) -> None:
    made = Made(tmp_path / "killed")
    made.case("a", [passed(0)], label="the only one")
    made.write_info(total=3)
    words = words_of(report_html([str(made.folder)]))
    assert "has no report yet: 1 of 3 cases have ended" in words
    assert "the only one" in words


def test_the_file_forbids_scripts_and_loads_nothing(tmp_path: Path) -> None:
    """The policy allows exactly the style of the file."""
    source = report_html([str(made_run(tmp_path / "one", 5))])
    page = Page(re.sub("<style>.*?</style>", "<style></style>", source, flags=re.DOTALL))
    (style,) = re.findall("<style>(.*?)</style>", source, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [attributes["content"] for _, attributes in page.elements if "http-equiv" in attributes]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "form"}


def test_no_text_of_a_run_becomes_markup_in_the_file(tmp_path: Path) -> None:
    runs = [str(write_hostile_run(tmp_path / name)) for name in ("first", "second")]
    source = re.sub("<style>.*?</style>", "<style></style>", report_html(runs, cases=len(STRINGS)), flags=re.DOTALL)
    page = Page(source)
    assert page.depth == 0
    allowed = TAGS - {"script", "link", "img"} | {"br", "del", "footer", "ins", "strong", "style", "ul", "li"}
    for tag, attributes in page.elements:
        assert tag in allowed, tag
        for name, value in attributes.items():
            assert name in ATTRIBUTES or name.startswith("aria-"), f"{tag} {name}={value!r}"
            assert name != "href" or re.fullmatch(r"#[a-z0-9-]+", value), value
    assert not UNSEEN.search(source)
    shown = page.text
    for text in STRINGS[:42]:
        assert shown.count(text) > 4, text


def test_the_command_writes_the_file_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    made_run(tmp_path / "results" / "assay" / "one", 5)
    monkeypatch.chdir(tmp_path)
    assert typed("report", "results", "-o", "out.html") == 0
    assert b"wrote out.html" in capsysbinary.readouterr().err
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    assert typed("report", "results", "-o", "-", "--cases", "0") == 0
    printed = capsysbinary.readouterr().out
    assert printed.startswith(b"<!doctype html>")
    assert b"Failed rows" not in printed
    assert typed("report", "results", "-o", "no/such/folder.html") == 2
    assert b"cannot write no/such/folder.html" in capsysbinary.readouterr().err
    assert typed("report", "nothing-like-it") == 2
