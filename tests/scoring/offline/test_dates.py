"""Dates become spans of days, and spans agree or not."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, strategies as st

from assay.scoring.offline.dates import Span, agree, dates_in, is_vaguer, month_of, nearness
from assay.scoring.offline.numbers import in_digits


def told(text: str) -> list[str]:
    """`first..last` of each date; `*` before one that has no year."""
    return [shown(each.span) for each in dates_in(in_digits(text))]


def shown(span: Span) -> str:
    first, last = (date.fromordinal(day).isoformat() for day in (span.first, span.last))
    days = first if first == last else f"{first}..{last}"
    return f"*{days}" if span.yearly else days


def span(text: str) -> Span:
    (found,) = dates_in(in_digits(text))
    return found.span


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("7 May 2023", "2023-05-07"),
        ("on the 7th of May, 2023", "2023-05-07"),
        ("May 7th, 2023", "2023-05-07"),
        ("the seventh of May 2023", "2023-05-07"),
        ("2023-05-07", "2023-05-07"),
        ("2023/5/7", "2023-05-07"),
        ("05/07/2023", "2023-05-07"),
        ("2023年5月7日", "2023-05-07"),
        ("二〇二三年五月七号", "2023-05-07"),
        ("7May, 2023", "2023-05-07"),
        ("7thmay 2023", "2023-05-07"),
        ("May. the 7th 2023", "2023-05-07"),
        ("3 friends and 5 coins, of 7 of may 2023", "2023-05-07"),
        ("7 Febuary 2023", "2023-02-07"),
        ("Sept. 3 2021", "2021-09-03"),
        ("May 7th", "*2000-05-07"),
        ("5月7日", "*2000-05-07"),
        ("29 February", "*2000-02-29"),
        ("May 2023", "2023-05-01..2023-05-31"),
        ("May, 2023.", "2023-05-01..2023-05-31"),
        ("2023年5月", "2023-05-01..2023-05-31"),
        ("in May", "*2000-05-01..2000-05-31"),
        ("2022", "2022-01-01..2022-12-31"),
        ("2022年", "2022-01-01..2022-12-31"),
        ("the 1990s", "1990-01-01..1999-12-31"),
        ("spring 2022", "2022-03-01..2022-05-28"),
        ("the summer of 2022", "2022-06-01..2022-08-28"),
        ("winter 2022", "2022-12-01..2023-02-28"),
        ("2022年春天", "2022-03-01..2022-05-28"),
        ("Christmas 2021", "2021-12-25"),
        ("the week before 9 June 2023", "2023-06-02..2023-06-08"),
        ("a week prior to 9 June 2023", "2023-06-02..2023-06-08"),
        ("the day after 9 June 2023", "2023-06-10"),
        ("two days before 9 June 2023", "2023-06-07"),
        ("the Friday before 15 July 2023", "2023-07-14"),
        ("the Friday before 14 July 2023", "2023-07-07"),
        ("the Monday after 15 July 2023", "2023-07-17"),
        ("the weekend before 17 July 2023", "2023-07-15..2023-07-16"),
        ("two weekends before 17 July 2023", "2023-07-08..2023-07-09"),
        ("two weeks before 11 August 2023", "2023-07-25..2023-07-31"),
        ("before 9 June 2023", "2023-06-02..2023-06-08"),
        ("on or before 9 June 2023", "2023-06-02..2023-06-09"),
        ("after 9 June 2023", "2023-06-10..2023-06-16"),
        ("the week before 7:20 pm on 9 June 2023", "2023-06-02..2023-06-08"),
        ("around 9 June 2023", "2023-06-08..2023-06-10"),
        ("around June 2023", "2023-06-01..2023-06-30"),
        ("the week of 23 August 2023", "2023-08-20..2023-08-29"),
        ("early August 2023", "2023-08-01..2023-08-11"),
        ("late August 2023", "2023-08-21..2023-09-01"),
        ("the first weekend of August 2023", "2023-08-05..2023-08-06"),
        ("the last week of September 2023", "2023-09-24..2023-09-30"),
        ("19-25 June 2023", "2023-06-19..2023-06-25"),
        ("June 19 to 25, 2023", "2023-06-19..2023-06-25"),
        ("June 30, 2023, to July 7, 2023", "2023-06-30..2023-07-07"),
        ("between 2020 and 2022", "2020-01-01..2022-12-31"),
        ("from late February to early March 2022", "2022-02-20..2022-03-11"),
        ("from December 3 to January 9, 2024", "2023-12-03..2024-01-09"),
    ],
)
def test_a_date_is_a_span(text: str, days: str) -> None:
    assert told(text) == [days]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "she may go in the march of time",
        "31 June 2023 people",
        "99 May",
        "$2000 and 2000 points",
        "at 20:15",
        "last Friday",
        "ten years ago",
        "5 apples",
    ],
)
def test_what_is_no_date(text: str) -> None:
    """Relative expressions without a date, such as `last week`, are not dates."""
    assert not [days for days in told(text) if "2023-06-31" in days or ".." not in days]


def test_a_list_shares_its_year() -> None:
    assert told("3 May and 9 June 2021") == ["2021-05-03", "2021-06-09"]
    assert told("in June/July 2023") == ["2023-06-01..2023-06-30", "2023-07-01..2023-07-31"]


@pytest.mark.parametrize(
    ("name", "month"),
    [("Janury", 1), ("Januarty", 1), ("Febuary", 2), ("Agust", 8), ("Sept", 9), ("market", 0), ("boxes", 0)],
)
def test_a_month_may_have_one_slip(name: str, month: int) -> None:
    assert month_of(name.lower()) == month


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("7 May 2023", "May 2023"),
        ("May 7th", "7 May 2023"),
        ("7 May 2023", "7 May"),
        ("14 July 2023", "the Friday before 15 July 2023"),
        ("5 June 2023", "the week before 9 June 2023"),
        ("the week of 5 June 2023", "the week before 9 June 2023"),
        ("August 2023", "early August 2023"),
        ("June 2022", "the summer of 2022"),
        ("9-10 September 2023", "the weekend before 13 September 2023"),
        ("19 May 2023", "the Friday before 20 May 2023"),
        ("around 20 May 2023", "the Friday before 20 May 2023"),
        ("around 7 May 2023", "7 May 2023"),
        ("before 20 May 2023", "the Friday before 20 May 2023"),
        ("last Friday before 2:01 pm on 20 May 2023", "the Friday before 20 May 2023"),
        ("on or before 20 May 2023", "the Friday before 20 May 2023"),
    ],
)
def test_dates_agree_where_they_overlap(said: str, meant: str) -> None:
    assert agree(span(said), span(meant))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("8 May 2023", "7 May 2023"),
        ("7 May 2022", "7 May 2023"),
        ("7 June 2023", "7 May 2023"),
        ("June 7th", "7 May 2023"),
        ("May 2023", "7 May 2023"),
        ("in May", "7 May 2023"),
        ("2023", "May 2023"),
        ("spring 2023", "May 2023"),
        ("in spring", "7 May 2023"),
        ("the week before 12 June 2023", "the week before 9 June 2023"),
        ("the Friday before 16 July 2023", "the Friday before 15 July 2023"),
        ("three weeks before 11 August 2023", "two weeks before 11 August 2023"),
        ("14-15 August 2023", "13-14 August 2023"),
        ("from May to April", "from May to July"),
        ("June 2023", "the week of 23 June 2023"),
        ("20 May 2023", "the Friday before 20 May 2023"),
        ("6 July 2023", "the week before 6 July 2023"),
        ("3 June 2022", "the weekend after 3 June 2022"),
        ("around 8 May 2023", "7 May 2023"),
        ("before 7 May 2023", "7 May 2023"),
    ],
)
def test_other_and_vaguer_dates_do_not_agree(said: str, meant: str) -> None:
    assert not agree(span(said), span(meant))


def test_what_is_near_is_told_from_what_is_far() -> None:
    reckoned = span("the Friday before 15 July 2023")
    assert nearness(span("16 July 2023"), reckoned) > nearness(span("20 July 2023"), reckoned) > 0
    assert nearness(span("20 July 2024"), reckoned) == 0
    assert is_vaguer(span("July 2023"), reckoned)


@given(st.dates(date(1600, 1, 1), date(2150, 12, 31)))
def test_every_day_is_read_in_every_form(day: date) -> None:
    """And agrees with itself, whichever way it is written."""
    name = day.strftime("%B")
    forms = [day.isoformat(), f"{day.day} {name} {day.year}", f"{name} {day.day}, {day.year}"]
    forms.append(f"{day.year}年{day.month}月{day.day}日")
    assert {tuple(told(form)) for form in forms} == {(day.isoformat(),)}
    assert all(agree(span(one), span(two)) for one in forms for two in forms)


@given(st.text(st.sampled_from("0123456789 ,-/年月日thofMayJuneweekbeforeFridaybetweenandlastto")))
def test_no_text_breaks_the_reading(text: str) -> None:
    for each in dates_in(in_digits(text)):
        assert 0 <= each.start < each.end
        assert each.span.first <= each.span.last
