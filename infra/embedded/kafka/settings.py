"""Configuration of the embedded Kafka: fast start, small, loopback, one user with a password, unlimited retention."""

from __future__ import annotations

from infra.kafka.address import EMBEDDED_USER

_LOGIN = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{EMBEDDED_USER}" password="{{password}}" '
    f'user_{EMBEDDED_USER}="{{password}}";'
)

JVM_FLAGS = (
    "-Xms64m",
    "-Xmx512m",
    # For a small process that starts quickly, not for peak throughput: one compiler tier, one collector thread.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xlog:disable",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)

PROPERTIES = f"""\
# Written by Newsproof at every start; changes made here do not last.
process.roles=broker,controller
node.id=1
listeners=BROKER://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}}
advertised.listeners=BROKER://127.0.0.1:{{port}}
# A login for the controller's port too: it takes what changes the cluster from anybody whom it lets in. PLAIN rather than
# SCRAM, whose users are stored at format time, so that a directory formatted without them could not start.
listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.broker.plain.sasl.jaas.config={_LOGIN}
listener.name.controller.plain.sasl.jaas.config={_LOGIN}
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
# A quorum named here, not one stored at format time: the next start may have other ports.
controller.quorum.voters=1@127.0.0.1:{{controller_port}}
# Relative to the data directory, which may then be moved, and may have any name.
log.dirs=log

auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
# A consumer group that has been away for a month still finds where it was.
offsets.retention.minutes=5256000
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1

group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# A killed broker is taken back only when its former registration has expired (9 s by default).
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=250
# A killed transactional producer holds read_committed readers up until this looks (10 s by default).
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000

log.retention.ms=-1
log.retention.bytes=-1
message.max.bytes=8388608
replica.fetch.max.bytes=8388608
log.index.size.max.bytes=1048576
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.io.buffer.size=131072
num.network.threads=2
num.io.threads=4
background.threads=2
num.recovery.threads.per.data.dir=2
"""
"""Format string of ``server.properties``, with ``port``, ``controller_port`` and ``password``."""
