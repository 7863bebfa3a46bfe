"""``newsproof model-server``: serves the scripted model and prints the settings that use it."""

from __future__ import annotations

import asyncio
from typing import get_args

from infra.offline.scripted.server import ScriptedServer
from infra.offline.scripted.stance import Profile
from infra.settings import Settings
from newsproof.app.invocation import say_result
from newsproof.app.servers import say_on_stderr as say
from schemas.errors import ConfigError


async def serve(settings: Settings, *, port: int, latency: str, seed: str) -> None:
    """Serve until cancelled. The settings to use go to standard output, as lines of an environment file.

    Raises:
        ConfigError: the port is in use, or the latency profile is unknown.
    """
    async with ScriptedServer(port=port, latency=profile(latency), seed=seed) as server:
        say("This is a SCRIPTED model server: rules write its responses, not a model. Use it with these settings:")
        say_result(f"NEWSPROOF_MODE=simulated\nSCRIPTED_MODEL_URL={server.url}")
        if settings.mode == "live":
            say("Set NEWSPROOF_MODE=simulated: with your keys, the current mode is live.")
        await asyncio.get_running_loop().create_future()


def profile(written: str) -> Profile:
    """Return the latency profile of this name.

    Raises:
        ConfigError: there is no such profile.
    """
    for known in get_args(Profile):
        if written == known:
            return known  # type: ignore[no-any-return]
    raise ConfigError(f"--latency is {written!r}: write one of {', '.join(get_args(Profile))}")
