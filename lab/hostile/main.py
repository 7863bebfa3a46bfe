"""``lab hostile``: runs from the command line and prints its tables or one line of JSON."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from infra.settings import Settings
from lab.hostile.run import Outcome, hostile_run
from newsproof.app import exits
from newsproof.app.servers import say_on_stderr
from newsproof.app.sheet import json_line, say_result, table


async def hostile(settings: Settings, *, records: int, seed: int, keep: Path | None, as_json: bool) -> int:
    """Run, print the result, and return the exit status: 1 if there is a finding.

    Raises:
        NewsproofError: a server does not start.
    """
    say_on_stderr(f"{records} hostile records, seed {seed}")
    if keep is not None:
        outcome = await hostile_run(settings_for(settings, keep), records=records, seed=seed, say=say_on_stderr)
    else:
        with TemporaryDirectory(prefix="newsproof-hostile-") as directory:
            at = settings_for(settings, Path(directory))
            outcome = await hostile_run(at, records=records, seed=seed, say=say_on_stderr)
    if as_json:
        json_line({**msgspec.structs.asdict(outcome), "findings": outcome.findings})
    else:
        _print(outcome)
    return exits.FINDING if outcome.findings else exits.OK


def settings_for(settings: Settings, directory: Path) -> Settings:
    """Return the settings of a separate installation: embedded, offline, in this directory."""
    return settings.model_copy(
        update={
            "newsproof_mode": "offline",
            "newsproof_data_dir": directory,
            "kafka_bootstrap_servers": None,
            "clickhouse_url": None,
            "topic_replication": 1,
            "metrics_port": None,
        }
    )


def _print(outcome: Outcome) -> None:
    table(("result", "records"), sorted(outcome.fates.items()), title="Fates", right=("records",))
    table(("kind", "records"), sorted(outcome.kinds.items()), title="Kinds", right=("records",))
    plain = {
        name: value
        for name, value in msgspec.structs.asdict(outcome).items()
        if name not in ("fates", "kinds", "processes", "wrong")
    }
    table(("metric", "value"), plain.items(), title="Metrics", right=("value",))
    used = [(name, p.rss_mb, p.files_first, p.files_last) for name, p in outcome.processes.items()]
    table(("process", "peak MB", "open files at start", "at end"), used, title="Processes", right=("peak MB",))
    for kind, count in outcome.wrong.items():
        say_result(f"WRONG: {count} x {kind}")
    for finding in outcome.findings:
        say_result(f"FINDING: {finding}")
    if not outcome.findings:
        say_result("Every hostile record is accounted for; every good one has its signal, once.")
