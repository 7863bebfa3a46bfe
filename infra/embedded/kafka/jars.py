"""Jars of the embedded Kafka: pinned in ``kafka_jars.txt``, fetched once, checked at every start.

``kafka_jars.txt`` names every jar by its Maven coordinates and SHA-256. So nothing is resolved at run time, and the
tested jars run byte for byte. ``jgo`` fetches the jars from Maven Central, or from the ``[repositories]`` of the user's
own ``jgo.conf``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigError

PINS = Path(__file__).with_name("kafka_jars.txt")
_FETCHERS = 8
_FETCH_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class PinnedJar:
    """One jar: Maven coordinates ``group:artifact:version`` and the SHA-256 (hex) of its bytes."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        group, artifact, version = self.coordinates.split(":")
        return f"{group}-{artifact}-{version}.jar"


def read_pins(path: Path = PINS) -> tuple[PinnedJar, ...]:
    """Read the pinned jars, in the order of the class path."""
    lines = (line.split("#", 1)[0].split() for line in path.read_text("utf-8").splitlines())
    return tuple(PinnedJar(coordinates, digest) for digest, coordinates in filter(None, lines))


def default_cache_dir() -> Path:
    """Return the user's cache directory for Newsproof, in ``$XDG_CACHE_HOME`` or the platform's default."""
    if configured := os.environ.get("XDG_CACHE_HOME"):
        return Path(configured) / "newsproof"
    platform = Path("Library", "Caches") if sys.platform == "darwin" else Path(".cache")
    return Path.home() / platform / "newsproof"


def ensure_jars(
    cache_dir: Path,
    pins: Sequence[PinnedJar] | None = None,
    *,
    progress: Callable[[str], None] = lambda _text: None,
    given_up: threading.Event | None = None,
) -> tuple[Path, ...]:
    """Fetch missing jars, check the content of all; return their paths in the order of ``pins``.

    Blocking: 3 s for 46 jars (45 MB) on a fast line, 1 ms if they are present and their size and times have not changed
    since they were last hashed. Safe to run in several processes at once. ``progress`` receives a line for the user
    before a download. Once ``given_up`` is set, no further download begins.

    Raises:
        ConfigError: a jar's content is not the pinned one, or a missing jar could not be fetched.
    """
    wanted = read_pins() if pins is None else tuple(pins)
    folder = cache_dir / "kafka-jars"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {pin: folder / pin.file_name for pin in wanted}
    with _exclusive(folder / "fetch.lock"):
        missing = [pin for pin in wanted if not paths[pin].exists()]
        if missing:
            progress(
                f"Downloading Apache Kafka (first start only): {len(missing)} of {len(wanted)} jars, 45 MB in all …"
            )
            _fetch(missing, folder, given_up or threading.Event())
        _check(paths, folder / "checked.json")
    return tuple(paths.values())


def _fetch(missing: Sequence[PinnedJar], folder: Path, given_up: threading.Event) -> None:
    # Imported here, because it takes 0.3 s and only the very first start needs it.
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder) as scratch:
        context = MavenContext(
            repo_cache=Path(scratch), remote_repos=GlobalSettings.load().repositories or None, timeout=_FETCH_TIMEOUT_S
        )

        def fetch(pin: PinnedJar) -> None:
            if given_up.is_set():
                raise ConfigError("interrupted while downloading Apache Kafka: start again to download the rest")
            fetched = Path(context.create_dependency(pin.coordinates).artifact.resolve())
            _refuse_other_content(pin, fetched, hashlib.sha256(fetched.read_bytes()).hexdigest())
            # Moved into place only once complete and checked, so that an interruption leaves no partial file.
            fetched.replace(folder / pin.file_name)

        with ThreadPoolExecutor(_FETCHERS) as pool:
            tasks = {pin: pool.submit(fetch, pin) for pin in missing}
        for pin, task in tasks.items():
            try:
                task.result()
            except ConfigError:
                raise
            except Exception as exc:
                raise ConfigError(
                    f"Could not download {pin.coordinates} for the embedded Kafka: {exc}. Check the network "
                    "(or write your mirror into [repositories] of ~/.config/jgo.conf) and start again, or "
                    "set KAFKA_BOOTSTRAP_SERVERS to a Kafka that runs elsewhere."
                ) from exc


def _check(paths: dict[PinnedJar, Path], stamp: Path) -> None:
    """Hash every file that changed since it was last checked; refuse any content other than the pinned one."""
    try:
        known = json.loads(stamp.read_text("utf-8"))
    except (OSError, ValueError):
        known = {}
    seen = {}
    for pin, path in paths.items():
        status = path.stat()
        mark = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, pin.sha256]
        if known.get(path.name) != mark:
            _refuse_other_content(pin, path, hashlib.sha256(path.read_bytes()).hexdigest())
        seen[path.name] = mark
    if seen != known:
        fresh = stamp.with_suffix(".new")
        fresh.write_text(json.dumps(seen), "utf-8")
        fresh.replace(stamp)


def _refuse_other_content(pin: PinnedJar, path: Path, actual: str) -> None:
    if actual != pin.sha256:
        raise ConfigError(
            f"{path} is not the {pin.coordinates} that this project pins: its SHA-256 is {actual}, "
            f"the pinned one is {pin.sha256} ({PINS.name}). Nothing was started. Delete that file and start "
            "again to download it. If it differs again, do not trust the repository that your jars come from."
        )


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold a lock across processes; blocks until it is free."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
