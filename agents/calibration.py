"""Calibration: from a signal's raw confidence and a fitted map to a probability with its interval."""

from __future__ import annotations

import math

from schemas.calibration import STOOD, CalibrationMap, Curve, SignalCalibration, moved

CLIP = 0.005
"""Confidence below it or above ``1 - CLIP`` counts as that bound, in fits and here: the logit of 0 and 1 is infinite."""
Z_95 = 1.96
"""Half width of a normal distribution's 95 % interval, in standard deviations."""
DIGITS = 4
"""Decimals of the probabilities, so that the last bits of a platform's ``exp`` change no byte of a signal."""


def clipped_logit(confidence: float) -> float:
    """Return the log odds of a confidence of 0-1 after :data:`CLIP`."""
    p = min(1.0 - CLIP, max(CLIP, confidence))
    return math.log(p / (1.0 - p))


def probability(logit: float) -> float:
    """Return the inverse of the logit, for any size of it."""
    e = math.exp(-abs(logit))
    return 1.0 / (1.0 + e) if logit >= 0 else e / (1.0 + e)


def curve_for(calibration: CalibrationMap, target: str, event_type: str, language: str) -> Curve | None:
    """Return the target's curve of this group of signals, else its curve of all signals; None without either."""
    curves = {(c.event_type, c.language): c for c in calibration.curves if c.target == target}
    return curves.get((event_type, language)) or curves.get(("", ""))


def apply_curve(curve: Curve, confidence: float) -> tuple[float, float, float]:
    """Return (probability, low, high) at a raw confidence.

    ``low`` and ``high`` bound the probability's 95 % interval: Laplace's normal distribution of the curve's parameters, on the
    logit.
    """
    x = clipped_logit(confidence)
    middle = curve.intercept + curve.slope * x
    v_intercept, common, v_slope = curve.covariance
    half = Z_95 * math.sqrt(max(0.0, v_intercept + 2.0 * x * common + x * x * v_slope))
    at, low, high = (round(probability(logit), DIGITS) for logit in (middle, middle - half, middle + half))
    return at, low, high


def calibrated(
    calibration: CalibrationMap, *, confidence: float, event_type: str, language: str, horizon_s: int
) -> tuple[float, SignalCalibration] | None:
    """Return ``confidence_calibrated`` and its explanation, or None if the map has no ``moved`` curve of this horizon.

    ``confidence``: raw, 0-1. ``horizon_s``: the signal's horizon in seconds. Probabilities are rounded to :data:`DIGITS` decimals.
    """
    target = moved(horizon_s)
    curve = curve_for(calibration, target, event_type, language)
    if curve is None:
        return None
    at, low, high = apply_curve(curve, confidence)
    truth = curve_for(calibration, STOOD, event_type, language)
    return at, SignalCalibration(
        id=calibration.id,
        method=calibration.method,
        target=target,
        n_stories=curve.stories,
        low=low,
        high=high,
        p_true=None if truth is None else apply_curve(truth, confidence)[0],
    )
