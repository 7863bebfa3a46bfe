"""``newsproof calibration``: fits the map from raw confidence to how often such signals came true, and shows it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec
import typer

from agents.calibration import apply_curve
from agents.signal import HORIZON_S
from newsproof.app.composition import prepare_topics
from newsproof.app.data_access import database, log_to_read, open_log
from newsproof.app.invocation import Invocation
from newsproof.app.sheet import advise, json_line, say_result
from newsproof.app.sheet import figures_table as table
from newsproof.cli.options import JsonObject, command, commands, option
from schemas.calibration import STOOD, CalibrationMap, Curve, moved
from schemas.prices import HORIZONS_S
from schemas.printable import counted
from streams.calibration.topic import CalibrationFitted, Fits, append_fit

SHOWN = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Raw confidences whose probabilities are shown."""
TARGETS = (STOOD, *map(moved, sorted({*HORIZONS_S, *HORIZON_S.values()})))
_IN_WORDS = {300: "5 min", 3600: "1 h", 14400: "4 h", 86400: "24 h", 604800: "7 days", 2592000: "30 days"}

app = commands()
group = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Fit and show how often signals of each confidence came true (docs/calibration.md).",
)
app.add_typer(group, name="calibration")


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What a curve makes of a raw confidence, with its 95 % interval."""

    confidence: float
    probability: float
    low: float
    high: float


class ShownCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A curve at the confidences of :data:`SHOWN`. Event type and language are empty for the curve of all signals."""

    event_type: str
    language: str
    stories: int
    intercept: float
    slope: float
    points: tuple[Point, ...]


class TargetView(msgspec.Struct, frozen=True, kw_only=True):
    """A target with its curves. ``stories``: those with a known outcome; ``missing``: how many more a first curve needs."""

    target: str
    stories: int
    missing: int
    curves: tuple[ShownCurve, ...]


class CalibrationView(msgspec.Struct, frozen=True, kw_only=True):
    """A map as shown. ``sell_from``: None without a selling rule; above 1 if no confidence is enough for an order."""

    id: str
    as_of: datetime
    appended: bool
    sell_from: float | None
    targets: tuple[TargetView, ...]


class FitResult(NamedTuple):
    """A fit, and the setting of the installation that it was made in."""

    fitted: CalibrationFitted
    mode: str


@command(group)
async def fit(
    invocation: Invocation,
    dry_run: Annotated[bool, option("Show the map without appending it.", "--dry-run")] = False,
    as_json: JsonObject = False,
) -> None:
    """Fit a map now, and append it to the topic `calibration`.

    It uses live signals whose prices or labels are known: `newsproof outcomes import`, `newsproof labels import`. The sink does
    the same once a day. Live workers adopt a new map within seconds; open cases keep theirs.
    """
    made = await _fit(invocation, append=not dry_run)
    view = view_of(made.fitted, appended=not dry_run)
    if as_json:
        return json_line(view)
    print_view(view)
    if dry_run:
        say_result("Dry run: nothing was appended.")
    elif made.mode == "live":
        say_result("Appended. Live workers adopt it within seconds, for new cases.")
    else:
        say_result(f"Appended. Only live workers use it; this installation is set to {made.mode}.")


@command(group)
async def show(invocation: Invocation, as_json: JsonObject = False) -> None:
    """Show the newest map from raw to calibrated confidence.

    A target has no curve until enough stories have a known outcome. It then says how many it has.
    """
    fitted = await _newest(invocation)
    if as_json:
        return json_line(None if fitted is None else view_of(fitted, appended=True))
    if fitted is None:
        return advise(
            "No map was fitted yet. The sink fits one a day in live mode; `newsproof calibration fit` does it now."
        )
    print_view(view_of(fitted, appended=True))


async def _fit(invocation: Invocation, *, append: bool) -> FitResult:
    from streams.calibration.refit import fit_as_of

    settings = invocation.settings()
    async with database(invocation, admin=False) as client:
        share = settings.calibration_max_false_share or None
        fitted = await fit_as_of(client, datetime.now(UTC), false_share=share)
    if append:
        async with open_log(invocation) as log:
            await prepare_topics(log.settings)  # an installation of an older version lacks the topic
            await append_fit(log.address, log.topics, fitted)
    return FitResult(fitted, settings.mode)


async def _newest(invocation: Invocation) -> CalibrationFitted | None:
    from streams.journal.log import KafkaLog

    async with log_to_read(invocation) as log:
        return await Fits(KafkaLog(log.address), log.topics).read()


def view_of(fitted: CalibrationFitted, *, appended: bool) -> CalibrationView:
    """Return a fit as shown."""
    return CalibrationView(
        id=fitted.map.id,
        as_of=fitted.map.as_of,
        appended=appended,
        sell_from=fitted.map.sell_from,
        targets=tuple(_target(fitted, name) for name in dict.fromkeys((*TARGETS, *fitted.stories))),
    )


def _target(fitted: CalibrationFitted, name: str) -> TargetView:
    from streams.calibration.fit import CURVE_FROM

    curves, stories = tuple(_curves(fitted.map, name)), fitted.stories.get(name, 0)
    return TargetView(
        target=name, stories=stories, missing=0 if curves else max(0, CURVE_FROM - stories), curves=curves
    )


def _curves(calibration: CalibrationMap, target: str) -> Iterator[ShownCurve]:
    for curve in calibration.curves:
        if curve.target == target:
            yield ShownCurve(
                event_type=curve.event_type,
                language=curve.language,
                stories=curve.stories,
                intercept=curve.intercept,
                slope=curve.slope,
                points=tuple(_point(curve, confidence) for confidence in SHOWN),
            )


def _point(curve: Curve, confidence: float) -> Point:
    at, low, high = apply_curve(curve, confidence)
    return Point(confidence=confidence, probability=at, low=low, high=high)


def print_view(view: CalibrationView) -> None:
    """Print a map as a table, the raw confidence first, and how many stories its other targets miss."""
    columns = ("target", "group", "stories", *(f"{confidence:g}" for confidence in SHOWN))
    rows = [("raw confidence", "", "", *(f"{confidence:.0%}" for confidence in SHOWN))]
    rows += [
        (
            in_words(target.target),
            f"{curve.event_type} {curve.language}".strip() or "all",
            str(curve.stories),
            *(f"{p.probability:.0%} ({p.low:.0%}–{p.high:.0%})" for p in curve.points),
        )
        for target in view.targets
        for curve in target.curves
    ]
    title = f"Calibration map {view.id}, as of {view.as_of:%Y-%m-%d %H:%M} UTC: probability (95 % interval) by raw confidence"
    if any(target.curves for target in view.targets):
        table(columns, rows, title=title, right=columns[2:])
    else:
        say_result(f"No curve as of {view.as_of:%Y-%m-%d %H:%M} UTC, so signals are not calibrated.")
    for target in view.targets:
        if not target.curves:
            need = target.stories + target.missing
            say_result(
                f"No curve for “{in_words(target.target)}”: {target.stories} of {need} stories with a known outcome."
            )
    if view.sell_from is not None:
        say_result(
            f"Selling rule: orders below confidence {view.sell_from:g} are removed."
            if view.sell_from <= 1
            else "Selling rule: every order is removed, because no confidence keeps the share of false claims low enough."
        )


def in_words(target: str) -> str:
    """Return a target in words."""
    if target == STOOD:
        return "the claim stands for 14 days"
    seconds = int(target.partition(":")[2])
    return f"the price moves 10 bp within {_IN_WORDS.get(seconds) or counted(seconds, 'second')}"
