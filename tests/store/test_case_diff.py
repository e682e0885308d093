"""Two cases beside each other: every text is paired, and changes are found within bounds."""

from __future__ import annotations

from assay.core.suite_pages import StoredCase
from assay.core.types import ASK, Call, End, Failure, Record, Request, Response, Score
from assay.store.render.case_diff import TextPair, compare_cases, line_changes
from assay.store.render.markdown import case_diff_markdown

HEAD = (0, "k", "set", "m")


def stored_case(*replies: str, key: str = "k", failure: Failure | None = None, value: float | None = 1.0) -> StoredCase:
    """A case with a prompt and a reply for each text."""
    status = failure.status if failure else "ok"
    calls = [
        Call(
            *HEAD,
            stage=ASK,
            try_=1,
            hash=str(number),
            n=0,
            request=Request(model="m", messages=[{"role": "user", "content": f"question {number}"}]),
            response=Response(reply),
        )
        for number, reply in enumerate(replies)
    ]
    records = [Record(*HEAD, 1, "answer", data=replies[-1])] if replies else []
    scores = [Score(*HEAD, scorer="s@1", metric="right", value=value, reason="because")]
    return StoredCase(End(0, key, "set", "m", ASK, 1, status, [], failure), records, scores, calls)


def test_texts_are_paired_by_their_names() -> None:
    """A text that only one case has is told as such."""
    diff = compare_cases(stored_case("a", "b c d"), stored_case("a", "b x d", "e", value=0.0))
    assert {pair.name: (pair.left, pair.right) for pair in diff.texts if not pair.same} == {
        "reply 2": ("b c d", "b x d"),
        "prompt 3": (None, "[user]\nquestion 2"),
        "parameters 3": (None, "{}"),
        "reply 3": (None, "e"),
        "answer": ("b c d", "e"),
    }
    assert diff.scores.rows == [["right", "1", "0"]]
    assert diff.same_row


def test_a_failure_stands_beside_an_answer() -> None:
    diff = compare_cases(stored_case("a"), stored_case(failure=Failure("timeout", "too slow"), key="other"))
    assert not diff.same_row
    assert ("failure", None, "timeout: too slow") in [tuple(pair) for pair in diff.texts]


def test_short_texts_differ_by_words_and_long_ones_by_lines() -> None:
    pair = TextPair("reply", "It is 6 of them.", "It is 7 of them.")
    assert not pair.by_line
    assert [tuple(change) for change in pair.words] == [
        ("same", "It is "),
        ("removed", "6 "),
        ("added", "7 "),
        ("same", "of them."),
    ]
    numbers = [f"line {number}" for number in range(40)]
    pair = TextPair("reply", "\n".join(numbers), "\n".join([*numbers[:20], "other", *numbers[21:]]))
    assert pair.by_line
    assert [change.text for change in pair.lines] == [
        "…",
        *("line 17", "line 18", "line 19", "line 20", "other", "line 21", "line 22", "line 23"),
        "…",
    ]
    # A paragraph is one long line.
    assert not TextPair("reply", "word " * 500, "word " * 499 + "end").by_line
    assert len("".join(change.text for change in TextPair("reply", "word " * 500, "word " * 499 + "end").words)) < 300


def test_huge_texts_take_no_time() -> None:
    """Lines that repeat without end are the worst case of difflib: without a bound this test would not end."""
    before, after = "\n".join(["a", "b"] * 20_000), "\n".join(["b", "c"] * 20_000)
    assert len(line_changes(before, after)) == 80_000
    assert TextPair("reply", "x " * 100_000, "y " * 100_000).words == []


def test_markdown_shows_hostile_texts_as_they_are() -> None:
    hostile = "```\n# heading\n<script>\x1b[2J"
    text = case_diff_markdown(compare_cases(stored_case("a"), stored_case(hostile)), ["left | @team", "right <b>"])
    lines = text.splitlines()
    assert lines[0] == "- left: left \\| &#64;team"
    start = lines.index("````diff")
    assert lines[start + 1 : start + 6] == ["- a", "+ ```", "+ # heading", "+ <script>�[2J", "````"]
    assert lines[-1] == "The same in both: prompt 1, parameters 1, reason for right"
