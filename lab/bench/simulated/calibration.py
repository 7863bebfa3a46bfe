"""``bench calibration``: how near calibrated confidences come to a known truth, and how well their intervals hold.

Seeded, simulated signals: a raw confidence of two decimals from Beta(5, 2.5) (mean 0.67), and a claim that comes true with a
known probability. The overconfident truth, ``logit(p) = -0.4 + 0.6 * logit(confidence)``, is at a mean squared distance of
0.024 from the raw confidence. It has the shape of the fitted curve; the truth in steps has not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from statistics import NormalDist

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from agents.calibration import apply_curve, calibrated, clipped_logit, probability
from lab.bench.measures import Figure
from schemas.calibration import STOOD, CalibrationMap, Curve, moved
from streams.calibration.fit import STANDS_FOR, Sample, fit_map, fit_platt, sell_from
from streams.calibration.noise_floor import noise_floor

REPETITIONS = 400
CONFIDENCES = np.arange(1, 100) / 100
WEIGHTS = CONFIDENCES**4.0 * (1 - CONFIDENCES) ** 1.5
WEIGHTS /= WEIGHTS.sum()
HOUR_S = 3600
HOUR = moved(HOUR_S)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FALSE_SHARE = 0.15
BRIER_SEEDS, BRIER_STORIES, BRIER_FRESH = 100, 200, 2_000
LOGS, LOG_DAYS, STORIES_A_DAY = 60, 120, 6
SHARING, SHARED = 5, 0.3
"""Stories a day whose outcomes have this share of their variance in common, as they do on a day when the market falls."""

Truth = Callable[[float], float]


def overconfident(confidence: float) -> float:
    return probability(-0.4 + 0.6 * clipped_logit(confidence))


def calibrated_already(confidence: float) -> float:
    return confidence


def in_steps(confidence: float) -> float:
    return 0.35 if confidence < 0.6 else 0.5 if confidence < 0.8 else 0.75


def claims(confidence: float) -> float:
    """Return the probability that the claim stands."""
    return probability(0.8 + 0.8 * clipped_logit(confidence))


TRUTHS: dict[str, Truth] = {
    "overconfident": overconfident,
    "calibrated already": calibrated_already,
    "in steps": in_steps,
}


class FitResult(msgspec.Struct, frozen=True):
    """One fit: its mean squared distance to the truth, and the share of signals whose interval covers their truth."""

    distance: float
    covered: float


class LogResult(msgspec.Struct, frozen=True):
    """A log calibrated day by day. Brier scores are those of signals with a calibrated confidence, ``signals`` of them.

    ``covered``: the share whose interval covers the truth. ``first_day``: the first day with a curve. ``maps`` compared after a
    change of all outcomes that became known later, and how many of those ``changed``.
    """

    raw: float
    calibrated: float
    covered: float
    signals: int
    first_day: int
    maps: int
    changed: int


def distance(probabilities: Sequence[float] | NDArray[np.float64], truth: Truth) -> float:
    """Return the mean squared distance of what is said at each of ``CONFIDENCES`` to the truth."""
    true = np.array([truth(c) for c in CONFIDENCES.tolist()])
    return float(WEIGHTS @ (np.asarray(probabilities) - true) ** 2)


def draw(rng: np.random.Generator, truth: Truth, stories: int, *, shared: float = 0.0) -> tuple[list[float], list[int]]:
    """Return confidences and outcomes. ``shared``: the share of the outcomes' variance that five stories of a day have in common."""
    confidences = rng.choice(CONFIDENCES, stories, p=WEIGHTS).tolist()
    days = np.repeat(rng.normal(size=-(-stories // SHARING)), SHARING)[:stories]
    drawn = math.sqrt(shared) * days + math.sqrt(1.0 - shared) * rng.normal(size=stories)
    normal = NormalDist()
    return confidences, [int(normal.cdf(x) < truth(c)) for c, x in zip(confidences, drawn.tolist(), strict=True)]


def one_fit(name: str, stories: int, seed: int, shared: float = 0.0) -> FitResult:
    """Fit one curve and compare it with the truth. ``shared``: as in :func:`draw`."""
    truth = TRUTHS[name]
    confidences, outcomes = draw(np.random.default_rng([seed, stories]), truth, stories, shared=shared)
    logits = np.array([clipped_logit(c) for c in confidences])
    intercept, slope, covariance = fit_platt(logits, np.array(outcomes, dtype=float))
    curve = Curve(target=HOUR, stories=stories, intercept=intercept, slope=slope, covariance=covariance)
    mapped = [apply_curve(curve, c) for c in CONFIDENCES.tolist()]
    covers = np.array([low <= truth(c) <= high for c, (_, low, high) in zip(CONFIDENCES.tolist(), mapped, strict=True)])
    return FitResult(distance=distance([at for at, _, _ in mapped], truth), covered=float(WEIGHTS @ covers))


def one_brier(name: str, seed: int) -> bool:
    """Return whether the calibrated Brier score of fresh signals is at most the raw one, with a map of 200 stories."""
    rng, truth = np.random.default_rng([seed, 7]), TRUTHS[name]
    fitted = fit_map(_samples(*draw(rng, truth, BRIER_STORIES)), BEGIN + timedelta(days=30), false_share=None)
    confidences, outcomes = draw(rng, truth, BRIER_FRESH)
    at = {c: _calibrated(fitted, c)[0] for c in set(confidences)}
    gained = [(c - y) ** 2 - (at[c] - y) ** 2 for c, y in zip(confidences, outcomes, strict=True)]
    return sum(gained) >= 0.0


def one_rule(stories: int, seed: int) -> tuple[bool, float]:
    """Return whether the selling rule keeps its promise among fresh signals, and the share of signals that it sells."""
    samples = _samples(*draw(np.random.default_rng([seed, 11]), claims, stories), target=STOOD)
    sold = sell_from(samples, FALSE_SHARE) <= CONFIDENCES
    share = float(WEIGHTS[sold].sum())
    false = float(WEIGHTS[sold] @ [1.0 - claims(c) for c in CONFIDENCES[sold].tolist()])
    return false <= FALSE_SHARE * share, share


def one_log(seed: int) -> LogResult:
    """Calibrate a log of 120 days, each day by a map of what was known at its beginning."""
    log = simulated_log(seed)
    maps = maps_of(log, LOG_DAYS)
    cut = random.Random(seed).randrange(40, LOG_DAYS - 20)
    changed = maps_of(changed_after(log, BEGIN + timedelta(days=cut)), cut + 1)
    same = sum(msgspec.json.encode(a) == msgspec.json.encode(b) for a, b in zip(maps, changed, strict=False))
    raw, better, covered = [], [], []
    for sample in log:
        today = maps[(sample.decided_at - BEGIN).days]
        if sample.target != HOUR or not today.curves or today.curves[0].target != HOUR:
            continue
        at, low, high = _calibrated(today, sample.confidence)
        raw.append((sample.confidence - sample.outcome) ** 2)
        better.append((at - sample.outcome) ** 2)
        covered.append(low <= overconfident(sample.confidence) <= high)
    return LogResult(
        raw=float(np.mean(raw)),
        calibrated=float(np.mean(better)),
        covered=float(np.mean(covered)),
        signals=len(raw),
        first_day=next(n for n, fitted in enumerate(maps) if fitted.curves),
        maps=cut + 1,
        changed=cut + 1 - same,
    )


def simulated_log(seed: int, days: int = LOG_DAYS) -> list[Sample]:
    """Return the log's samples. One story in five has a second case; a false claim is denied within two days."""
    rng = np.random.default_rng([seed, 13])
    samples = []
    for n in range(days * STORIES_A_DAY):
        decided_at = BEGIN + timedelta(days=n // STORIES_A_DAY, seconds=int(rng.integers(86_400)))
        for _ in range(1 + int(rng.random() < 0.2)):
            (confidence,), (hit,) = draw(rng, overconfident, 1)
            stood = int(rng.random() < claims(confidence))
            late = STANDS_FOR if stood else timedelta(seconds=int(rng.integers(2 * 86_400)))
            each = ((HOUR, hit, timedelta(seconds=HOUR_S)), (STOOD, stood, late))
            samples += [_sample(target, n, confidence, y, decided_at, decided_at + after) for target, y, after in each]
            decided_at = min(decided_at + timedelta(minutes=30), BEGIN + timedelta(days=days, seconds=-1))
    return samples


def maps_of(log: Sequence[Sample], days: int) -> list[CalibrationMap]:
    """Return the map of each day, fitted at its beginning (UTC)."""
    return [fit_map(log, BEGIN + timedelta(days=n), false_share=FALSE_SHARE) for n in range(days)]


def changed_after(log: Sequence[Sample], cut: datetime) -> list[Sample]:
    """Return the log with the opposite of every outcome that became known after ``cut``."""
    return [s if s.known_at <= cut else replace(s, outcome=0 if s.outcome else 1) for s in log]


def _samples(confidences: Sequence[float], outcomes: Sequence[int], target: str = HOUR) -> list[Sample]:
    pairs = enumerate(zip(confidences, outcomes, strict=True))
    return [_sample(target, n, c, y, BEGIN, BEGIN + STANDS_FOR) for n, (c, y) in pairs]


def _sample(target: str, story: int, confidence: float, y: int, decided_at: datetime, known_at: datetime) -> Sample:
    return Sample(
        target=target, story=f"{story:05d}", confidence=confidence, outcome=1 if y else 0, event_type="", language="",
        decided_at=decided_at, known_at=known_at,
    )  # fmt: skip


def _calibrated(calibration: CalibrationMap, confidence: float) -> tuple[float, float, float]:
    mapped = calibrated(calibration, confidence=confidence, event_type="hack", language="en", horizon_s=HOUR_S)
    if mapped is None:
        raise ValueError("this map has no curve of 1 h: fit it on at least 50 stories")
    return mapped[0], mapped[1].low, mapped[1].high


async def calibration(repetitions: int = REPETITIONS) -> list[Figure]:
    """Return distances to the truth, coverage, Brier scores, a prequential run, the selling rule, and the noise floor."""
    with ProcessPoolExecutor() as pool:
        parts = (_distances, _briers, _logs, _rules)
        return [figure for part in parts for figure in part(pool, repetitions)] + _floors()


def _distances(pool: ProcessPoolExecutor, repetitions: int) -> list[Figure]:
    figures = []
    targets = {"overconfident": {20: "<= 16", 200: "<= 3", 1_000: "<= 0.6"}}
    for name, truth in TRUTHS.items():
        raw = 1_000 * distance(CONFIDENCES, truth)
        for stories in (20, 50, 200, 1_000):
            seeds = range(repetitions)
            fits = list(pool.map(one_fit, [name] * repetitions, [stories] * repetitions, seeds, chunksize=16))
            value = 1_000 * float(np.mean([fit.distance for fit in fits]))
            figures.append(
                Figure(name=f"squared distance to the truth x 1,000: {name}, {stories:,} stories", value=value, unit="",
                       target=targets.get(name, {}).get(stories, ""), baseline=f"raw {raw:.1f}; {repetitions} repetitions")
            )  # fmt: skip
            if stories >= 50:
                share = float(np.mean([fit.covered for fit in fits]))
                figures.append(
                    Figure(name=f"95 % interval covers the truth: {name}, {stories:,} stories", value=share, unit="share",
                           target="" if truth is in_steps else "0.93-0.98", baseline=f"{repetitions} repetitions")
                )  # fmt: skip
    stories, same = 200, [SHARED] * repetitions
    fits = list(
        pool.map(
            one_fit, ["overconfident"] * repetitions, [stories] * repetitions, range(repetitions), same, chunksize=16
        )
    )
    figures.append(
        Figure(name=f"95 % interval covers the truth: overconfident, {stories} stories, {SHARING} a day share {SHARED:.0%}",
               value=float(np.mean([fit.covered for fit in fits])), unit="share", target="", baseline=f"{repetitions} repetitions")
    )  # fmt: skip
    return figures


def _briers(pool: ProcessPoolExecutor, _repetitions: int) -> list[Figure]:
    figures = []
    for name, target in (("overconfident", ">= 98"), ("in steps", ">= 98"), ("calibrated already", "")):
        better = sum(pool.map(one_brier, [name] * BRIER_SEEDS, range(BRIER_SEEDS), chunksize=8))
        figures.append(
            Figure(name=f"calibrated Brier <= raw: {name}, {BRIER_STORIES} stories", value=better, unit=f"of {BRIER_SEEDS} seeds",
                   target=target, baseline=f"{BRIER_FRESH:,} fresh signals")
        )  # fmt: skip
    return figures


def _logs(pool: ProcessPoolExecutor, _repetitions: int) -> list[Figure]:
    logs = list(pool.map(one_log, range(LOGS)))
    days = [log.first_day for log in logs]
    raw, better = (float(np.mean([getattr(log, name) for log in logs])) for name in ("raw", "calibrated"))
    of = f"{LOGS} logs of {LOG_DAYS} days, {STORIES_A_DAY} stories each, a map a day"
    return [
        Figure(name="day by day: Brier of the calibrated confidence", value=better, unit="share", target="< raw", ratio=better / raw,
               baseline=f"raw {raw:.3f}; {of}"),
        Figure(name="day by day: calibrated Brier <= raw", value=sum(log.calibrated <= log.raw for log in logs), unit="logs",
               target=f">= {LOGS - 1}", baseline=of),
        Figure(name="day by day: 95 % interval covers the truth", value=float(np.mean([log.covered for log in logs])),
               unit="share", target="0.93-0.98", baseline=f"{sum(log.signals for log in logs):,} signals; {of}"),
        Figure(name="day by day: first day with a curve", value=float(np.mean(days)), unit="days", target="",
               baseline=f"from {min(days)} to {max(days)}; a curve needs 50 stories"),
        Figure(name="day by day: maps that outcomes known later change", value=sum(log.changed for log in logs), unit="maps",
               target="0", baseline=f"{sum(log.maps for log in logs):,} maps compared byte for byte"),
    ]  # fmt: skip


def _rules(pool: ProcessPoolExecutor, repetitions: int) -> list[Figure]:
    figures = []
    for stories in (100, 400):
        rules = list(pool.map(one_rule, [stories] * repetitions, range(repetitions), chunksize=16))
        kept, sold = sum(held for held, _ in rules) / repetitions, float(np.mean([share for _, share in rules]))
        figures.append(
            Figure(name=f"selling rule keeps a false share of {FALSE_SHARE:.0%}: {stories} stories", value=kept, unit="share",
                   target=">= 0.90", baseline=f"sells {sold:.0%} of the signals; {repetitions} repetitions")
        )  # fmt: skip
    return figures


def _floors() -> list[Figure]:
    figures = []
    tenth = np.minimum(9, np.floor(CONFIDENCES * 10 + 1e-9)).astype(int)
    for cases in (100, 1_000):
        weights = np.array([WEIGHTS[tenth == n].sum() for n in range(10)])
        stated = [float(WEIGHTS[tenth == n] @ CONFIDENCES[tenth == n] / weights[n]) for n in range(10)]
        floor = noise_floor(list(zip(np.rint(weights * cases).astype(int).tolist(), stated, strict=True)))
        figures.append(
            Figure(name=f"noise floor of the ECE: {cases:,} cases", value=floor, unit="share", target="",
                   baseline="95th percentile of a perfect forecaster")
        )  # fmt: skip
    return figures
