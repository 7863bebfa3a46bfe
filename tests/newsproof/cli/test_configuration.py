"""What `newsproof config` shows, and the page that documents the settings."""

from __future__ import annotations

import json
from pathlib import Path

from infra.settings import Settings
from newsproof.cli.operate.describe import MASK, masked, settings_page
from tests.newsproof.command import CHECKOUT, NOBODY_OUTSIDE, invoked


def shown(cwd: Path, *arguments: str, **env: str) -> dict[str, dict[str, str]]:
    done = invoked(*arguments, "config", "--json", cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_every_setting_is_shown_with_its_value_and_origin(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOPIC_PARTITIONS=8\nDEDUP_DAYS=3\n")
    found = shown(tmp_path, "--data-dir", "elsewhere", DEDUP_DAYS="5", TOPIC_REPLICATION="")
    assert set(found) == {name.upper() for name in Settings.model_fields}
    about = {name: (one["value"], one["origin"]) for name, one in found.items()}
    assert about["TOPIC_PARTITIONS"] == ("8", ".env")
    assert about["DEDUP_DAYS"] == ("5", "environment")
    assert about["NEWSPROOF_DATA_DIR"] == ("elsewhere", "command line")
    assert about["TOPIC_REPLICATION"] == ("1", "default")


def test_no_secret_is_shown(tmp_path: Path) -> None:
    secrets = {
        "GEMINI_API_KEY": "gemini-geheim",
        "TAVILY_API_KEY": "tavily-geheim",
        "KAFKA_SASL_PASSWORD": "kafka-geheim",
        "CLICKHOUSE_URL": "http://me:clickhouse-geheim@db:8123",
    }
    for arguments in (["config", "--json"], ["config"], ["doctor", "--json"]):
        done = invoked(*arguments, cwd=tmp_path, env=secrets | NOBODY_OUTSIDE)
        assert "geheim" not in done.stdout + done.stderr
    assert masked("http://me:clickhouse-geheim@db:8123") == f"http://me:{MASK}@db:8123"


def test_the_page_of_settings_is_up_to_date_and_holds_every_one() -> None:
    page = settings_page()
    assert (CHECKOUT / "docs" / "settings.md").read_text("utf-8") == page, (
        "newsproof config --markdown > docs/settings.md"
    )
    for name in Settings.model_fields:
        assert f"| `{name.upper()}` |" in page
