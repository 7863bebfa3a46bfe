"""What Faust is told, whatever the environment says."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from infra.kafka.topics import KafkaAddress
from streams.faust.app import faust_app
from streams.faust.ledger import QuietMonitor
from streams.runtime.options import WorkerOptions
from tests.virtual_time import run_virtually, virtual_s


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


def test_a_worker_subscribes_without_waiting_for_tables_that_it_has_not(tmp_path: Path) -> None:
    async def subscribed_at() -> float:
        app = faust_app("group", KafkaAddress(bootstrap="127.0.0.1:9"), WorkerOptions(slot_dir=tmp_path), QuietMonitor)
        app.consumer = Mock()
        app.consumer.assignment.return_value = set()
        await app.tables.on_start()
        await app.tables.wait_until_tables_registered()
        at = virtual_s()
        await app.tables.recovery.stop()
        return at

    assert run_virtually(subscribed_at()) == 0


@pytest.mark.security
async def test_faust_logs_in_to_an_embedded_broker_without_tls_and_to_any_other_with_it(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("some-password-of-a-broker")
    embedded = KafkaAddress.embedded("127.0.0.1:9", tmp_path / "password")
    other = KafkaAddress(
        bootstrap="kafka:9", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", username="u", password="p"
    )
    options = WorkerOptions(slot_dir=tmp_path)
    told = {
        address.bootstrap: faust_app("group", address, options, QuietMonitor).conf.broker_credentials
        for address in (embedded, other)
    }
    assert {where: one.protocol.value for where, one in told.items()} == {
        "127.0.0.1:9": "SASL_PLAINTEXT", "kafka:9": "SASL_SSL"
    }  # fmt: skip
    assert (told["127.0.0.1:9"].username, told["127.0.0.1:9"].password) == ("newsproof", "some-password-of-a-broker")
