"""A connection that the peer closed a moment ago: what a request on it raises, on the loop that services run on."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest
import uvloop
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from infra.kafka.address import KafkaAddress


async def _answer_versions_and_reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # A broker's answer to ApiVersions v0: correlation id, no error, one known request (Metadata, versions 0 to 1).
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    request = await reader.readexactly(size)
    answer = request[4:8] + struct.pack(">hihhh", 0, 1, MetadataRequest.API_KEY, 0, 1)
    writer.write(struct.pack(">i", len(answer)) + answer)
    await reader.readexactly(1)  # until the client says that it is connected
    reset_at_close = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_at_close)
    writer.transport.abort()


async def _request_while_the_loss_is_unread() -> None:
    server = await asyncio.start_server(_answer_versions_and_reset, "127.0.0.1", 0)
    async with server:
        connection = AIOKafkaConnection("127.0.0.1", server.sockets[0].getsockname()[1])
        await connection.connect()
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ask() -> None:
            assert connection.connected()  # its reader has not been told yet
            try:
                connection.send(MetadataRequest([]))
            except Exception as refused:
                asked.set_exception(refused)

        def connection_lost(exc: Exception | None) -> None:
            asyncio.get_running_loop().call_soon(ask)  # once the transport is closed, before the reader's turn
            lost(exc)

        protocol = connection._writer.transport.get_protocol()
        lost = protocol.connection_lost
        protocol.connection_lost = connection_lost
        connection._writer.write(b"x")
        try:
            await asked
        finally:
            assert not connection.connected()


def test_a_request_on_a_connection_that_was_just_closed_is_a_lost_connection() -> None:
    with pytest.raises(KafkaConnectionError):
        uvloop.run(asyncio.wait_for(_request_while_the_loss_is_unread(), 10))


async def test_a_client_whose_metadata_update_failed_asks_again(address: KafkaAddress) -> None:
    async with address.reading() as consumer:
        client = consumer._client
        update, asked = client._metadata_update, 0

        async def fails_once(*args: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise RuntimeError("no such luck")
            return await update(*args)

        client._metadata_update = fails_once
        async with asyncio.timeout(20):
            assert await client.force_metadata_update() is False, "who waits is told"
            assert await client.force_metadata_update() is True
        assert asked == 2 and not client._sync_task.done()
