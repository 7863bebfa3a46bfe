"""``newsproof backtest watch``."""

from __future__ import annotations

from evaluation.watch.watching import Watched, delta_in_words, in_words, watch_of, watched
from newsproof.app.data_access import database
from newsproof.app.invocation import Invocation, json_line, say_result, table
from newsproof.report.run_name import run_name
from schemas.ids import LIVE_RUN


async def show_watched(invocation: Invocation, run_id: str, *, as_json: bool) -> None:
    """Look at a run that is watched, and print what it says so far.

    Raises:
        ConfigError: the run does not exist, has no metric to be watched by, or has no case beside live yet.
    """
    async with database(invocation, admin=True) as tables:
        watch = await watch_of(tables, run_id)
        seen = await watched(tables, run_id, watch, invocation.settings().profit_cap)
        live = await run_name(tables, LIVE_RUN)
    if as_json:
        json_line(seen)
    else:
        _print(seen, live)


def _print(seen: Watched, live: str) -> None:
    def figure(value: float | None) -> str:
        return "–" if value is None else f"{value:+.4g}"

    rows = [
        ("candidate minus live", delta_in_words(seen), f"mean over blocks of {seen.block_days} UTC {'day' if seen.block_days == 1 else 'days'}"),
        ("interval", f"{figure(seen.low)} … {figure(seen.high)}", f"{100 * seen.level:g} %, at all looks together"),
        ("blocks", f"{seen.blocks}", f"closed; the first interval needs {seen.first_block}, and the newest block is open"),
        ("cases", f"{seen.cases}", f"measured, open blocks included; {seen.left_out} later tellings of a story left out"),
    ]  # fmt: skip
    table(("", "", "what"), rows, title=f"{seen.metric}: {seen.run_id} beside {live}", right=("",))
    if seen.code_change:
        say_result(f"! {seen.code_change}; a difference may not be of the prompt alone")
    say_result(f"Verdict: {in_words(seen)}.")
    if seen.stop:
        say_result(f"The stop rule ({seen.stop_when}) holds: the run ends.")
