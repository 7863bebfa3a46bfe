"""What Faust is told, whatever the environment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.kafka import KafkaAddress
from streams.faust_app import faust_app
from streams.ledger import QuietMonitor
from streams.options import WorkerOptions


async def test_the_environment_of_ours_and_of_others_says_nothing_to_faust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "WEB_PORT": "0", "WEB_HOST": "0.0.0.0", "WEB_BIND": "0.0.0.0", "TOPIC_PARTITIONS": "77",
        "PROCESSING_GUARANTEE": "exactly_once", "STREAM_WAIT_EMPTY": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    app = faust_app("group", KafkaAddress(bootstrap="127.0.0.1:9"), WorkerOptions(slot_dir=tmp_path), QuietMonitor)
    conf = app.conf
    assert (conf.processing_guarantee.value, conf.stream_wait_empty) == ("at_least_once", False)
    assert conf.web_bind == "127.0.0.1" and conf.topic_partitions != 77
