"""Statistics compared with scipy and statsmodels on random tables.

All checks are one test, because every test process would spend four seconds on the imports.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator

from assay.core.report import PairedMetric
from assay.scoring.intervals import Z, cluster_sample, share_interval, t_interval, t_quantile, tango, wilson
from assay.scoring.paired import adjust_metrics, mcnemar, paired, sign_flip
from assay.scoring.power import Design, cases_needed, power_of

SEEDS = max(int(os.environ.get("ASSAY_EXAMPLES", "20")) // 20, 1)
"""One random table for each check in `make test`, 25 in `make test-long`."""


def test_numbers_agree_with_scipy_and_statsmodels_on_random_tables() -> None:
    checks: list[Callable[[Generator], None]] = [
        quantiles_of_students_t,
        wilson_intervals,
        t_intervals,
        log_odds_intervals,
        clustered_errors,
        clustered_intervals_of_pairs,
        tango_intervals,
        correlations,
        mcnemar_tests,
        permutation_tests,
        holm_adjustments,
        sample_sizes,
    ]
    for check in checks:
        for seed in range(SEEDS):
            try:
                check(np.random.default_rng(seed))
            except AssertionError as error:
                raise AssertionError(f"{check.__name__}, seed {seed}") from error


def quantiles_of_students_t(stream: Generator) -> None:
    from scipy import stats

    for freedom in (1.0, *np.exp(stream.uniform(0, 12, 10))):
        for share in stream.uniform(0.5, 0.9999, 5):
            expected = stats.t.ppf(share, freedom)
            assert t_quantile(float(freedom), float(share)) == pytest.approx(expected, rel=1e-6)


def wilson_intervals(stream: Generator) -> None:
    from statsmodels.stats.proportion import proportion_confint

    total = int(stream.integers(1, 2000))
    for right in (0, total, int(stream.integers(0, total + 1))):
        assert wilson(right, total) == pytest.approx(proportion_confint(right, total, method="wilson"), abs=1e-9)


def t_intervals(stream: Generator) -> None:
    from scipy import stats

    base, new = stream.normal(size=(2, int(stream.integers(3, 60))))
    sample = cluster_sample(new)
    expected = stats.t.interval(0.95, len(new) - 1, loc=new.mean(), scale=stats.sem(new))
    interval = t_interval(sample.mean, sample.variance, sample.freedom).interval
    assert interval == pytest.approx(expected, rel=1e-6)
    of_pairs = stats.ttest_rel(new, base).confidence_interval()
    assert paired(base, new, np.arange(len(new))).interval == pytest.approx(tuple(of_pairs), rel=1e-6)


def log_odds_intervals(stream: Generator) -> None:
    """A logistic regression on a constant has the same estimate and error."""
    import statsmodels.api as sm
    from scipy import stats

    right, wrong = (int(number) for number in stream.integers(3, 60, 2))
    count = right + wrong
    fit = sm.Logit(np.repeat([1.0, 0.0], [right, wrong]), np.ones(count)).fit(disp=False)
    reach = stats.t.ppf(0.975, count - 1) * float(fit.bse[0])
    low, high = (1 / (1 + math.exp(-float(fit.params[0]) - sign * reach)) for sign in (-1, 1))
    variance = right * wrong / count**3
    interval = share_interval(right / count, variance, count - 1, cases=count).interval
    assert interval == pytest.approx((low, high), rel=1e-5)


def clustered_errors(stream: Generator) -> None:
    """With clusters of equal size, the variance is the usual one with the factor G / (G - 1)."""
    import statsmodels.api as sm

    groups, size = (int(number) for number in stream.integers(2, 20, 2))
    clusters = np.repeat(np.arange(groups), size)
    values = (stream.random(groups * size) < stream.beta(2, 2, groups)[clusters]).astype(float)
    sample = cluster_sample(values, clusters)
    options = {"groups": clusters, "use_correction": False}
    fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds=options)
    clustered = float(fit.bse[0]) ** 2 * groups / (groups - 1)
    assert sample.variance == pytest.approx(max(clustered, sample.naive), abs=1e-12)
    assert sample.freedom == pytest.approx(groups - 1)


def clustered_intervals_of_pairs(stream: Generator) -> None:
    import statsmodels.api as sm
    from scipy import stats

    clusters = np.repeat(np.arange(8), 5)
    base = stream.normal(size=40)
    new = base + stream.normal(size=40) + stream.normal(scale=2, size=8)[clusters]
    found = paired(base, new, clusters)
    options = {"groups": clusters, "use_correction": False}
    fit = sm.OLS(new - base, np.ones(40)).fit(cov_type="cluster", cov_kwds=options)
    error = math.sqrt(max(float(fit.bse[0]) ** 2 * 8 / 7, float(np.var(new - base, ddof=1)) / 40))
    reach = stats.t.ppf(0.975, 7) * error
    assert found.stderr == pytest.approx(error)
    assert found.interval == pytest.approx((found.difference - reach, found.difference + reach), rel=1e-6)
    assert (found.method, found.clusters) == ("clustered t", 8)


def tango_intervals(stream: Generator) -> None:
    """A score test does not just reject the bounds. scipy maximises the likelihood in place of Tango's formula."""
    from scipy import optimize

    rose, fell, ties = (int(number) for number in stream.integers((0, 0, 1), (30, 30, 60)))
    count = rose + fell + ties
    for bound, expected in zip(tango(rose, fell, count), (Z, -Z), strict=True):

        def negative(fall: float, difference: float = bound) -> float:
            chances = (fall + difference, fall, 1 - 2 * fall - difference)
            numbers = zip((rose, fell, ties), chances, strict=True)
            return -sum(number * math.log(max(chance, 1e-300)) for number, chance in numbers if number)

        limits = (max(0.0, -bound), (1 - bound) / 2)
        fall = optimize.minimize_scalar(negative, bounds=limits, method="bounded", options={"xatol": 1e-12}).x
        variance = count * (2 * fall + bound * (1 - bound))
        assert (rose - fell - count * bound) / math.sqrt(variance) == pytest.approx(expected, abs=1e-3)


def correlations(stream: Generator) -> None:
    from scipy import stats

    base = stream.random(30)
    new = base + stream.normal(size=30)
    found = paired(base, new, np.arange(30))
    assert found.correlation == pytest.approx(stats.pearsonr(base, new).statistic)


def mcnemar_tests(stream: Generator) -> None:
    from scipy import stats
    from statsmodels.stats.contingency_tables import mcnemar as oracle

    rose, fell = (int(number) for number in stream.integers(0, 300, 2))
    assert mcnemar(rose, fell) == pytest.approx(min(1.0, oracle([[5, rose], [fell, 5]]).pvalue), rel=1e-9)
    rose = 50_000 + int(stream.integers(0, 900))
    expected = stats.binomtest(50_000, 50_000 + rose).pvalue
    assert mcnemar(rose, 50_000) == pytest.approx(expected, rel=1e-8)


def permutation_tests(stream: Generator) -> None:
    """Scipy tries all signs of few clusters too. For very many, random signs are normal."""
    from scipy import stats

    few = stream.normal(0.3, 1, int(stream.integers(2, 10))).round(2)
    expected = stats.permutation_test(
        (few,), lambda values: abs(values.sum()), permutation_type="samples", alternative="greater"
    ).pvalue
    assert sign_flip(few) == pytest.approx(expected)
    many = stream.normal(0.005, 1, 100_000)
    normal = 2 * stats.norm.sf(abs(many.sum()) / math.sqrt((many * many).sum()))
    # four standard errors of 9,999 draws
    assert sign_flip(many) == pytest.approx(normal, abs=4 * math.sqrt(normal / 9_999) + 2e-4)


def holm_adjustments(stream: Generator) -> None:
    from statsmodels.stats.multitest import multipletests

    values = (stream.random(stream.integers(1, 20)) ** 3).round(3).tolist()
    rows = [PairedMetric(set="", metric="m", part="", higher_is_better=True, n=9, difference=0.1, p=p) for p in values]
    adjust_metrics(rows)
    expected = multipletests(values, method="holm")[1].tolist()
    assert [row.p_adjusted for row in rows] == pytest.approx(expected)
    assert [row.verdict == "better" for row in rows] == [p < 0.05 for p in expected]


def sample_sizes(stream: Generator) -> None:
    """Unpaired proportions, paired proportions (McNemar) and numbers of any size."""
    from statsmodels.stats.power import NormalIndPower, normal_sample_size_one_tail
    from statsmodels.stats.proportion import power_proportions_2indep, samplesize_proportions_2indep_onetail

    baseline, effect = float(stream.uniform(0.2, 0.8)), float(stream.uniform(0.01, 0.15))
    power, alpha = float(stream.uniform(0.5, 0.95)), float(stream.uniform(0.01, 0.2))
    unpaired = Design(baseline=baseline, paired=False, power=power, alpha=alpha)
    expected = samplesize_proportions_2indep_onetail(effect, baseline, power, alpha=alpha, alternative="two-sided")
    assert cases_needed(unpaired, effect) == math.ceil(expected)
    reached = power_proportions_2indep(effect, baseline, 400, alpha=alpha, return_results=False)
    # The oracle adds the chance to reject in the wrong direction.
    assert power_of(unpaired, effect, 400) == pytest.approx(reached, abs=2e-2)

    design = Design(baseline=baseline, power=power, alpha=alpha, correlation=0.4)
    first, second = (share * (1 - share) for share in (baseline, baseline + effect))
    variance = first + second - 0.8 * math.sqrt(first * second)
    expected = normal_sample_size_one_tail(
        effect,
        power,
        alpha / 2,
        std_null=math.sqrt(variance + effect**2),
        std_alternative=math.sqrt(variance),
    )
    assert cases_needed(design, effect) == math.ceil(expected)

    numbers = Design(baseline=7.0, paired=False, power=power, alpha=alpha, variance=4.0)
    # One-sided with half of alpha: two-sided, the oracle adds the chance to reject in the wrong direction.
    expected = NormalIndPower().solve_power(effect / 2, alpha=alpha / 2, power=power, alternative="larger")
    assert cases_needed(numbers, effect) == math.ceil(expected)
