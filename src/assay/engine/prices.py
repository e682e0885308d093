"""The price table: what a million tokens of a model cost, in US dollars.

    table = read_prices("")                          # $ASSAY_PRICES, else assay's own table, engine/prices.yaml
    pricer = table.pricer("openai/gpt-4o-mini")      # None if the table has no price for it
    pricer.apply(response).cost                      # the endpoint's own price if it reported one

A call is priced before it is logged. So the log, and everything that is computed from it, keeps the price that was
known when the call was made, whatever the table says later.
"""

from __future__ import annotations

import math
import os
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from assay.core.errors import InputError, Problem
from assay.core.hashing import file_sha256
from assay.core.suite import Overview, PlannedCalls
from assay.core.types import Response
from assay.files.json_schema import JsonSchema, derive
from assay.files.schema import convert, refuse
from assay.files.yaml_files import load_yaml

OWN_TABLE = Path(__file__).with_name("prices.yaml")
VARIABLE = "ASSAY_PRICES"
TOKENS = 1_000_000
"""Prices are for this many tokens."""
# Digits of a price after the point. A token of the cheapest model costs 0.000000005 dollars. Without rounding, the log
# would have prices such as 0.0000040499999999999995.
_DIGITS = 12

Dollars = Annotated[float, Meta(ge=0, description="US dollars for a million tokens, 0 or more")]


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of one model, in US dollars for a million tokens."""

    input: Dollars
    output: Dollars
    """Reasoning tokens are output tokens."""
    cached_input: Dollars | None = None
    """Of input tokens that the provider read from its cache. None means the price of `input`."""


class PriceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a price table. Of several names that fit a model, the first one counts."""

    as_of: date
    models: Annotated[dict[str, Price], Meta(min_length=1)]


class PriceTable:
    """A price table that was read. `id` is its date and the first digits of its SHA-256: `2025-12-01/1f0c93aa`."""

    def __init__(self, path: Path, content: PriceFile) -> None:
        self.path = path
        self.as_of = content.as_of.isoformat()
        self.models = content.models
        self.id = f"{self.as_of}/{file_sha256(path)[:8]}"

    @property
    def name(self) -> str:
        """The table in messages: its file, or `assay's own price table`."""
        return "assay's own price table" if self.path == OWN_TABLE else f"the price table {self.path}"

    def find(self, model: str) -> Price | None:
        """Return the prices of a model PROVIDER/NAME. None if no name of the table fits."""
        return next((price for name, price in self.models.items() if fnmatchcase(model, name)), None)

    def pricer(self, model: str) -> Pricer | None:
        """Return what prices the calls of a model. None if the table has no price for it."""
        price = self.find(model)
        return Pricer(price, self.id) if price is not None else None


class Pricer:
    """Puts the price of a call into its response. One for each model of a run, because it is used for every call."""

    def __init__(self, price: Price, table: str) -> None:
        self._table = table
        self._input = price.input
        self._output = price.output
        # Negative, because cached tokens are part of the input tokens.
        self._discount = 0.0 if price.cached_input is None else price.cached_input - price.input
        self._is_free = not (price.input or price.output or price.cached_input)

    def apply(self, response: Response) -> Response:
        """Return the response with its price, unless the endpoint reported one or did not count the tokens."""
        if response.cost is not None:
            return response
        usage = response.usage
        # No call has neither input nor output: 0 and 0 are tokens that were not counted.
        if usage is None or not (usage.input or usage.output):
            # A model that costs nothing needs no tokens to be priced.
            return replace(response, cost=0.0, price_table=self._table) if self._is_free else response
        return replace(response, cost=self.cost(usage.input, usage.output, usage.cached), price_table=self._table)

    def cost(self, input_tokens: int, output_tokens: int, cached: int = 0) -> float:
        """Return the price of so many tokens, in US dollars."""
        total = input_tokens * self._input + output_tokens * self._output + cached * self._discount
        return round(total / TOKENS, _DIGITS)


def read_prices(file: str | None) -> PriceTable:
    """Return the table of this file, else of $ASSAY_PRICES, else assay's own. Raises InputError for a bad file."""
    path = Path(file or os.environ.get(VARIABLE) or OWN_TABLE)
    yaml = load_yaml(path)
    problems: list[Problem] = []
    value = yaml.value
    if "as_of" in value and not _is_date(value["as_of"]):
        message = f"expected a date such as 2026-01-31, found {value['as_of']!r}"
        problems.append(yaml.problem(("as_of",), message))
        value = {**value, "as_of": date.min}  # so that the other problems are found too
    content = convert(value, PriceFile, yaml, problems)
    for name, price in content.models.items() if content is not None else ():
        for field, dollars in (
            ("input", price.input),
            ("output", price.output),
            ("cached_input", price.cached_input),
        ):
            if dollars is not None and math.isinf(dollars):
                problems.append(yaml.problem(("models", name, field), "is not a finite number"))
        if "/" not in name:
            message = f"a name is PROVIDER/NAME, such as openai/{name}; * stands for any characters"
            problems.append(yaml.problem(("models", name), message))
    refuse(problems, path)
    assert content is not None
    return PriceTable(path, content)


def _is_date(value: object) -> bool:
    """Return whether a value of a YAML file is a date: YAML reads 2026-01-31 as one, and "2026-01-31" as a text."""
    if not isinstance(value, str):
        return type(value) is date  # a time of a day is a date, too, by isinstance
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return len(value) == len("2026-01-31")


def reports_prices(model: str, endpoint: str) -> bool:
    """Return whether an endpoint is known to report the price of each call: OpenRouter does."""
    host = endpoint.partition("//")[2].partition("/")[0].partition(":")[0]
    return model.startswith("openrouter/") or host == "openrouter.ai" or host.endswith(".openrouter.ai")


def is_price_table(path: Path) -> bool:
    """Return whether a file looks like a price table: a YAML mapping with `as_of` and `models`."""
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    try:
        return load_yaml(path).value.keys() >= {"as_of", "models"}
    except InputError:
        return False


def price_problems(path: Path) -> list[Problem]:
    """Return every problem of a price table, for `assay check`."""
    try:
        read_prices(str(path))
    except InputError as error:
        return list(error.problems)
    return []


def prices_schema() -> JsonSchema:
    """Return the JSON Schema of a price table."""
    return derive(
        PriceFile,
        "Prices of models, in US dollars for a million tokens.",
        texts={
            "PriceFile.as_of": "The day on which these prices were right.",
            "PriceFile.models": "Prices by PROVIDER/NAME. * stands for any characters. The first fitting name counts.",
            "Price.input": "Dollars for a million input tokens.",
            "Price.output": "Dollars for a million output tokens, reasoning included.",
            "Price.cached_input": "Dollars for a million input tokens from the provider's cache. Default: input.",
        },
    )


def price_plan(overview: Overview, table: PriceTable) -> Overview:
    """Return the plan of a run with the price of its calls, where tokens and prices are known."""
    calls = [_price_calls(planned, table) for planned in overview.calls]
    return Overview(
        facts=overview.facts,
        calls=calls,
        sections=overview.sections,
        prices=f"{table.name}, as of {table.as_of}",
    )


def _price_calls(planned: PlannedCalls, table: PriceTable) -> PlannedCalls:
    pricer = table.pricer(planned.model)
    if planned.calls == 0:
        return replace(planned, cost=0.0)
    if pricer is None:
        return replace(planned, no_cost=f"no price for {planned.model}")
    if planned.input_tokens is None or planned.output_tokens is None:
        return replace(planned, no_cost="tokens unknown")
    return replace(planned, cost=pricer.cost(planned.input_tokens, planned.output_tokens))
