"""No cut divides a secret: a redactor would not know the part of it that stays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from assay.files.excerpt import cut_end, cut_start
from assay.files.redact import Redactor, longest_secret

from support.commands import environment

KEY, WORDS = "sk-0f8fad5b9cb", "correct horse battery"
ODD = "Zq9-vX7\"k\\é/€'+<&t\n\U0001f600 w0"
SECRETS = [KEY, WORDS, ODD, f"{KEY}-long-one"]
QUOTES: list[Callable[[str], str]] = [str, repr, partial(json.dumps, ensure_ascii=False)]


@pytest.fixture(autouse=True, scope="module")
def redactor() -> Redactor:
    return Redactor(SECRETS)


def test_a_text_is_cut_at_the_place_that_was_asked_for() -> None:
    assert (cut_end("a long reply", 6), cut_start("a long log", 4)) == ("a long…", "… log")
    assert (cut_end("short", 5), cut_start("short", 5), cut_end("x", 0)) == ("short", "short", "…")


@pytest.mark.parametrize("place", range(3, 17))
def test_a_secret_across_a_cut_goes_as_a_whole(place: int) -> None:
    text = f"xx{KEY}yy"
    assert cut_end(text, place) == (f"xx{KEY}…" if place == 16 else "xx[redacted]…")
    assert cut_start(text, len(text) - place) == ("…yy" if place == 16 else "…[redacted]yy")


def test_secrets_that_overlap_go_together() -> None:
    Redactor(["abcdefgh-1234", "1234-stuvwxyz", "xyz-0123456789"])
    text = "=abcdefgh-1234-stuvwxyz-0123456789="
    for place in range(2, len(text) - 1):
        assert cut_end(text, place) == "=[redacted]…"
        assert cut_start(text, len(text) - place) == "…[redacted]="


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_cut_at_any_place_leaves_no_part_of_a_secret(data: st.DataObject) -> None:
    """Whichever side is cut, both, or one again after the text was quoted."""
    redactor = Redactor(SECRETS)
    secret = data.draw(st.sampled_from(SECRETS))
    around = st.text("xé… \"'\\\n", max_size=30)
    text = data.draw(around) + secret + data.draw(around)
    quoted = data.draw(st.sampled_from(QUOTES))
    for cut in data.draw(st.permutations([cut_end, cut_start]))[: data.draw(st.integers(1, 2))]:
        text = cut(text, data.draw(st.integers(0, len(text))))
    text = quoted(text)
    again = data.draw(st.sampled_from([cut_end, cut_start]))
    text = again(text, data.draw(st.integers(0, len(text))))
    cleaned = redactor.clean(text)
    for spelling in (secret, repr(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        # Three characters, because the text around a secret may have some of its signs.
        assert not any(spelling[at : at + 4] in cleaned for at in range(len(spelling) - 3))
    line = msgspec.json.encode({"type": "score", "reason": text})
    assert msgspec.json.decode(redactor(line)) == {"type": "score", "reason": cleaned}
    assert redactor(redactor(line)) == redactor(line)


def test_a_process_without_a_redactor_knows_the_secrets_of_its_environment() -> None:
    """Such as the worker of a cluster. What it cuts is redacted elsewhere."""
    program = "import sys; from assay.files.excerpt import cut_end; print(cut_end(sys.argv[1], 6))"
    words = [sys.executable, "-c", program, f"xx{KEY}"]
    for variables, expected in (({"A_KEY": KEY}, "xx[redacted]…"), ({}, "xxsk-0…")):
        done = subprocess.run(words, env={**environment(), **variables}, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_the_longest_secret_counts_as_it_may_be_written() -> None:
    assert longest_secret() >= max(len(ODD), len(json.dumps(ODD)[1:-1]), len(quote(ODD)))
