"""The price table: which price a model has, what a call costs by it, and what is wrong with a table."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.core.dollars import dollars
from assay.core.errors import InputError
from assay.core.file_check import PRICES
from assay.core.protocols import Context
from assay.core.types import Response, Usage
from assay.engine.prices import OWN_TABLE, read_prices, reports_prices
from assay.models.http.openai_format import read_usage

from servers.endpoint import Endpoint
from support.gateway_run import CHAT, gateway_run_at, post
from support.suite_files import problems_in

TABLE = """\
as_of: 2026-01-31
models:
  openai/gpt-4o-mini*: {input: 0.15, output: 0.6, cached_input: 0.075}
  openai/gpt-4o*: {input: 2.5, output: 10}
  local/*: {input: 0, output: 0}
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text(TABLE)
    return path


def cost(table: Path, model: str, usage: Usage | None, **fields: Any) -> float | None:
    pricer = read_prices(str(table)).pricer(model)
    assert pricer is not None
    return pricer.apply(Response("text", usage=usage, **fields)).cost


def test_a_call_costs_its_tokens_times_the_price_of_a_million(table: Path) -> None:
    assert cost(table, "openai/gpt-4o-mini", Usage(1_000_000, 1_000_000)) == 0.75
    assert cost(table, "openai/gpt-4o-mini", Usage(7, 5)) == 4.05e-06
    assert cost(table, "openai/gpt-4o", Usage(1000, 200)) == 0.0045


def test_cached_tokens_have_their_own_price_if_the_table_has_one(table: Path) -> None:
    assert cost(table, "openai/gpt-4o-mini", Usage(1000, 0, cached=400)) == 0.00012
    assert cost(table, "openai/gpt-4o", Usage(1000, 0, cached=400)) == 0.0025


def test_the_first_name_that_fits_counts(table: Path) -> None:
    prices = read_prices(str(table))
    names = ("openai/gpt-4o-mini-2024-07-18", "openai/gpt-4o-2024-08-06", "openai/gpt-5", "gpt-4o")
    assert [price and price.input for price in map(prices.find, names)] == [0.15, 2.5, None, None]


def test_a_price_that_the_endpoint_reports_counts_and_is_from_no_table(table: Path) -> None:
    pricer = read_prices(str(table)).pricer("openai/gpt-4o")
    assert pricer is not None
    reported = Response("text", usage=Usage(7, 5), cost=0.0)
    assert pricer.apply(reported) is reported
    assert pricer.apply(Response("text", usage=Usage(7, 5))).price_table.startswith("2026-01-31/")


def test_without_tokens_only_a_model_that_costs_nothing_has_a_price(table: Path) -> None:
    for usage in (None, Usage(0, 0)):
        assert cost(table, "openai/gpt-4o", usage) is None
        assert cost(table, "local/smollm2", usage) == 0.0


def test_the_option_goes_before_the_variable_and_the_variable_before_our_table(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_PRICES", raising=False)
    assert read_prices(None).path == OWN_TABLE
    monkeypatch.setenv("ASSAY_PRICES", str(table))
    assert read_prices(None).as_of == "2026-01-31"
    other = tmp_path / "other.yaml"
    other.write_text(TABLE.replace("01-31", "02-28"))
    assert read_prices(str(other)).as_of == "2026-02-28"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("output: 10", "output: ten", 4, "models.openai/gpt-4o*.output: expected US dollars"),
        ("output: 10", "output: -1", 4, "expected US dollars for a million tokens, 0 or more, found -1"),
        ("output: 10", "output: .inf", 4, "is not a finite number"),
        ("output: 10", "output: .nan", 4, "expected US dollars"),
        (", output: 10", "", 4, "models.openai/gpt-4o*.output: is missing"),
        ("cached_input", "cache_input", 3, "did you mean 'cached_input'"),
        ("openai/gpt-4o*", "gpt-4o*", 4, "a name is PROVIDER/NAME, such as openai/gpt-4o*"),
        ("as_of: 2026-01-31\n", "", 1, "as_of: is missing"),
        ("as_of: 2026-01-31", "as_of: last year", 1, "a date such as 2026-01-31"),
        ("as_of: 2026-01-31", "as_of: 2026", 1, "a date such as 2026-01-31"),
        ("  local/*", "\tlocal/*", 5, "a tab"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(table: Path, old: str, new: str, line: int, message: str) -> None:
    table.write_text(TABLE.replace(old, new))
    with pytest.raises(InputError) as refused:
        read_prices(str(table))
    assert f"{table}:{line}" in str(refused.value)
    assert message in str(refused.value)
    assert problems_in(table, suite=PRICES) == refused.value.problems


def test_a_table_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: there is no such file"):
        read_prices(str(tmp_path / "none.yaml"))


def test_our_table_prices_snapshots_and_no_other_kinds_of_a_model() -> None:
    prices = read_prices(str(OWN_TABLE))
    for name in ("gpt-4o-mini", "gpt-4o-mini-2024-07-18", "gpt-5", "gpt-4.1-2025-04-14"):
        assert prices.find(f"openai/{name}") == prices.find(f"openai-responses/{name}") is not None
    assert prices.find("openai/gpt-4o-2024-05-13") != prices.find("openai/gpt-4o-2024-08-06")
    for name in ("gpt-4o-mini-audio-preview", "gpt-5-pro", "gpt-5.1", "m", "gpt-4o-realtime-preview"):
        assert prices.find(f"openai/{name}") is None
    for model in (
        "local/smollm2",
        "python/model.py:answer",
        "script/replies.jsonl",
        "hf/gpt-5",
        "vllm/gpt-4o",
    ):
        assert prices.find(model) is None


def test_cached_tokens_are_read_from_both_forms_of_openai() -> None:
    chat = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    newer = {"input_tokens": 9, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 4}}
    assert read_usage({"usage": chat}) == read_usage({"usage": newer}) == Usage(9, 1, cached=4)
    for odd in (None, -1, True, "4"):
        chat["prompt_tokens_details"] = {"cached_tokens": odd}
        assert read_usage({"usage": chat}) == Usage(9, 1)


def test_only_openrouter_is_known_to_report_prices() -> None:
    assert reports_prices("openrouter/meta/llama", "")
    assert reports_prices("openai/meta/llama", "https://openrouter.ai/api/v1")
    assert not reports_prices("openai/openrouter.ai", "https://notopenrouter.ai/v1")


def test_a_request_of_an_sdk_is_priced_by_the_model_that_it_names(table: Path, tmp_path: Path) -> None:
    async def main() -> list[tuple[float | None, str]]:
        async with Endpoint() as endpoint:
            lab = gateway_run_at(tmp_path, endpoint)
            lab.name, lab.prices = "openai/gpt-4o-mini", read_prices(str(table))

            async def solve(inputs: Any, ctx: Context) -> None:
                url = await ctx.base_url()
                for body in ({**CHAT, "model": "gpt-4o"}, {**CHAT, "model": ""}, {**CHAT, "model": "mine"}):
                    assert (await post(f"{url}/chat/completions", body)).status == 200

            await lab.done(solve)
            return [(call["response"].get("cost"), call["response"].get("price_table", "")) for call in lab.calls()]

    # Seven tokens in, two out. The table does not know `openai/mine`.
    (dear, dear_table), (cheap, _), mine = asyncio.run(main())
    assert (dear, cheap) == (3.75e-05, 2.25e-06)
    assert dear_table.startswith("2026-01-31/")
    assert mine == (None, "")


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "–"),
        (0, "$0"),
        (0.4, "$0.40"),
        (0.0123, "$0.0123"),
        (4.05e-06, "$0.00000405"),
        (0.99999, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_prices_are_written_with_as_many_digits_as_they_need(amount: float | None, text: str) -> None:
    assert dollars(amount) == text
