"""Calibration: the fitted maps from a signal's raw confidence to how often such signals came true.

A map is fitted once a day from live signals with known outcomes, is appended to the topic ``calibration``, and reaches cases
through the configuration snapshot that they pin.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from schemas.ids import content_hash

Method = Literal["platt_identity_prior"]
"""Logistic map of the logit (Platt 1999) with a Gaussian prior of weight 1 on the identity (intercept 0, slope 1)."""
STOOD = "stood"
"""Target: the claim stood 14 days later. It was neither retracted nor superseded, and it was confirmed or labelled true."""


def moved(horizon_s: int) -> str:
    """Return the name of the target "the price moved over 10 bp in the signal's direction within this many seconds"."""
    return f"moved:{horizon_s}"


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fitted map: ``logit(p) = intercept + slope * logit(confidence)``.

    ``target``: :data:`STOOD` or :func:`moved`. ``event_type`` and ``language``: the group that it was fitted on, "" for all
    signals. ``stories``: how many stories it was fitted on; each counts once. ``covariance``: Laplace's, of intercept and slope:
    (variance of the intercept, covariance, variance of the slope).
    """

    target: str
    stories: int
    intercept: float
    slope: float
    covariance: tuple[float, float, float]
    event_type: str = ""
    language: str = ""


class CalibrationMap(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All curves fitted at one time. No outcome, label or withdrawal from after ``as_of`` (UTC) is in it.

    ``sell_from``: the selling rule: signals with less raw confidence carry no order; None: no rule.
    """

    version: int = 1
    as_of: datetime
    method: Method = "platt_identity_prior"
    curves: tuple[Curve, ...] = ()
    sell_from: float | None = None

    @property
    def id(self) -> str:
        """32 hex digits, from the content."""
        return content_hash(self)


class SignalCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """What a map says of one signal. ``id``: the map's.

    ``target``: what ``confidence_calibrated`` is the probability of: :func:`moved` at the signal's horizon. ``low`` and
    ``high``: its 95 % interval. ``n_stories``: the stories that its curve was fitted on. ``p_true``: the probability that the claim
    stands 14 days later, None without a curve of that target.
    """

    id: str
    method: Method
    target: str
    n_stories: int
    low: float
    high: float
    p_true: float | None
