"""The verifiers: what each asks, and what it makes of the replies."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.core.types import Failure, Request, Response
from assay.suites.hop.session import Session
from assay.suites.hop.verifiers import Vote, count_votes, verify_format

from support.hop_case import AGREES, Answer, HopCase, Telling, result

YES, NO = '{"answer": 1, "agrees": true}', '{"answer": 2, "reason": "it is 2", "agrees": false}'

VOTES = {"y": YES, "n": NO, "?": "hm", "t": '{"agrees": "false"}', "-": '{"answer": 1}'}


def got(folder: Path, run: Telling, verify: Telling, **options: Any) -> tuple[str, Any]:
    async def work(session: Session) -> tuple[str, Any]:
        return await session.hop_get("How many?", {"n": 1}, hop_retry=1, **options)

    return HopCase(folder, run, verify).session(work)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ('{"a": 1}', "result"),
        ("['a', 'b']", "result"),
        ({"a": {"b": [1, '  {"c": 2} ']}}, "result.a.b[1]"),
        ({"a": "{'b': None}"}, "result.a"),
        ([["[]"]], "result[0][0]"),
        ({"a": "('x', 'y')"}, "result.a"),
        ({"ok": "fine", "bad": "[1, 2"}, None),
        ("[citation needed]", None),
        ("{name}", None),
        ("a {b} c", None),
        ("(see above)", None),
        ({"{'a': 1}": 1}, None),
        ([1, True, None, 2.5, ""], None),
    ],
)
def test_text_that_holds_a_dict_or_list_is_found_anywhere(value: Any, where: str | None) -> None:
    """JSON and what Python prints alike; brackets in prose are prose."""
    verdict = verify_format(value)
    assert verdict.status == ("FAIL" if where else "OK")
    assert verdict.reason.startswith(f"{where} is text") if where else not verdict.reason


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "{" * 5000 + "}" * 5000, "[" + "-" * 90_000 + "]"])
def test_the_format_check_survives_any_text(text: str) -> None:
    """A model may write what exhausts a parser."""
    assert verify_format({"a": text}).status == "OK"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(alphabet="ab "),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_clean_tree_passes_and_its_text_does_not(tree: Any) -> None:
    """Whatever its shape: containers pass as they are, and fail as soon as they are text."""
    assert verify_format(tree).status == "OK"
    if isinstance(tree, (dict, list)):
        assert verify_format({"x": [json.dumps(tree)]}).status == "FAIL"
        assert verify_format({"x": [str(tree)]}).status == "FAIL"


@pytest.mark.parametrize(
    ("reply", "status", "told"),
    [
        (AGREES, "OK", 1),
        ('```json\n{"verdict": "ok"}\n```', "OK", 1),
        ('{"verdict": "FAIL", "reason": "it is 2"}', "FAIL", "it is 2"),
        ('{"verdict": "UNCERTAIN", "reason": "?"}', "UNCERTAIN", 1),
        ('{"verdict": "LACK_OF_INFO", "reason": "no n"}', "LACK_OF_INFO", "no n"),
        ("Looks good.", "UNCERTAIN", 1),
        ('{"verdict": "great"}', "UNCERTAIN", 1),
        ('{"passed": true}', "UNCERTAIN", 1),
    ],
)
def test_reverse_verification_is_one_call(tmp_path: Path, reply: str, status: str, told: Any) -> None:
    """A verdict that cannot be read leaves the result unconfirmed: it is not to blame."""
    verify = Telling(reply)
    assert got(tmp_path, Telling(result(1)), verify, verifier="reverse") == (status, told)
    assert len(verify.asked) == 1


@pytest.mark.parametrize(
    ("votes", "status"),
    [
        ("yyy", "OK"),
        ("yyn", "UNCERTAIN"),
        ("nyy", "UNCERTAIN"),
        ("ynn", "FAIL"),
        ("nnn", "FAIL"),
        ("yy?", "UNCERTAIN"),
        ("???", "FAIL"),
        ("yyt", "UNCERTAIN"),
        ("yy-", "UNCERTAIN"),
    ],
)
def test_cross_verification_counts_three_votes(tmp_path: Path, votes: str, status: str) -> None:
    """Two of three are 67 %, which is not enough; a vote that cannot be read agrees with nothing."""
    verify = Telling(*(VOTES[vote] for vote in votes))
    told = got(tmp_path, Telling(result(1)), verify, verifier="cross")
    assert told[0] == status
    assert len(verify.asked) == 3
    if status == "FAIL":
        assert "of 3 independent answers agree" in told[1]
        assert ("it is 2" in told[1]) == ("n" in votes)


@pytest.mark.parametrize(
    ("agreeing", "of", "status"),
    [(7, 10, "OK"), (69, 100, "UNCERTAIN"), (4, 10, "UNCERTAIN"), (39, 100, "FAIL"), (0, 1, "FAIL")],
)
def test_the_two_bounds_are_inclusive(agreeing: int, of: int, status: str) -> None:
    """From 70 % on it is OK, from 40 % on UNCERTAIN."""
    votes = [Vote(agrees=at < agreeing, reason="") for at in range(of)]
    assert count_votes(votes).status == status


class Together(Telling):
    """Answers only when three questions are there at once."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(*answers)
        self.barrier = asyncio.Barrier(3)

    async def send(self, request: Request, seed: int) -> Response:
        await asyncio.wait_for(self.barrier.wait(), 10)
        return await super().send(request, seed)


def test_the_three_votes_are_asked_side_by_side(tmp_path: Path) -> None:
    """One after the other they would never be answered here; they differ by their number only."""
    verify = Together(YES)
    lab = HopCase(tmp_path, Telling(result(1)), verify)
    assert lab.session(lambda s: s.hop_get("x", verifier="forward_cross_verify")) == ("OK", 1)
    votes = lab.calls()[1:]
    assert [call["n"] for call in sorted(votes, key=lambda call: int(call["n"]))] == [0, 1, 2]
    assert len({call["hash"] for call in votes}) == 1


def test_a_vote_that_got_no_reply_is_a_failed_call(tmp_path: Path) -> None:
    """It is no vote against the result; the other two are paid and logged."""
    verify = Telling(YES, Failure("overloaded", "no room"), YES)
    lab = HopCase(tmp_path, Telling(result(1)), verify)
    told = lab.session(lambda session: session.hop_get("x", verifier="cross"))
    assert told == ("FAIL", "[RuntimeError] overloaded: no room")
    assert len(lab.calls()) == 4


@pytest.mark.parametrize("verifier", [None, "format", "format_verifier"])
def test_without_a_verifier_the_format_is_still_checked(tmp_path: Path, verifier: Any) -> None:
    """And nobody is asked."""
    verify = Telling(AGREES)
    (tmp_path / "b").mkdir()
    assert got(tmp_path, Telling(result("fine")), verify, verifier=verifier) == ("OK", "fine")
    assert got(tmp_path / "b", Telling(result("{'a': 1}")), verify, verifier=verifier)[0] == "FAIL"
    assert verify.asked == []


def test_a_function_of_the_user_verifies(tmp_path: Path) -> None:
    """Sync ones in a thread of their own, async ones in the loop; both see what the operator was given."""
    seen: list[Any] = []

    def sync(*given: Any) -> Any:
        seen.append((given, threading.current_thread() is threading.main_thread()))
        return ["UNCERTAIN", "hm"]

    async def later(task: str, context: Any, found: Any) -> Any:
        await asyncio.sleep(0)
        return "FAIL", f"{found} of {context['n']}"

    (tmp_path / "b").mkdir()
    assert got(tmp_path, Telling(result(5)), Telling(AGREES), verifier=sync) == ("UNCERTAIN", 5)
    assert seen == [(("How many?", {"n": 1}, 5), False)]
    assert got(tmp_path / "b", Telling(result(5)), Telling(AGREES), verifier=later) == ("FAIL", "5 of 1")


def raising(*_: Any) -> Any:
    raise KeyError("n")


async def leaving(*_: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("verifier", "told"),
    [
        (raising, "[KeyError] 'n'"),
        (leaving, "[SystemExit] 3"),
        (lambda *_: True, "the verifier returned true, not (status, reason)"),
        (lambda *_: ("GOOD", ""), "not (status, reason)"),
        (lambda: None, "[TypeError]"),
    ],
)
def test_a_broken_verifier_fails_the_result_once(tmp_path: Path, verifier: Any, told: str) -> None:
    """To ask the model again would not mend it."""
    run = Telling(result(1))
    status, said = HopCase(tmp_path, run).session(lambda s: s.hop_get("x", verifier=verifier))
    assert status == "FAIL"
    assert told in said
    assert len(run.asked) == 1


def test_format_comes_before_the_users_own(tmp_path: Path) -> None:
    """A result in disguise never reaches it."""
    seen: list[Any] = []

    def own(task: str, context: Any, found: Any) -> tuple[str, str]:
        seen.append(found)
        return "OK", ""

    run = Telling(result({"a": "[1]"}), result({"a": [1]}))
    assert HopCase(tmp_path, run).session(lambda s: s.hop_get("x", verifier=own)) == ("OK", {"a": [1]})
    assert seen == [{"a": [1]}]
