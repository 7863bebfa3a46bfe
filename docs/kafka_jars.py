"""Print the lines of infra/embedded/kafka/kafka_jars.txt, for an upgrade of Kafka: coordinates with all they depend on.

.venv/bin/python docs/kafka_jars.py GROUP:ARTIFACT:VERSION...
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jgo.maven import MavenContext
from jgo.parse import Coordinate

TIMEOUT_S = 60


def pin(coordinates: Sequence[str]) -> str:
    """Resolve ``coordinates`` with all run-time dependencies; return the lines for ``kafka_jars.txt``."""
    scratch = Path(tempfile.mkdtemp(prefix="jars-"))
    try:
        context = MavenContext(repo_cache=scratch, timeout=TIMEOUT_S)
        roots = [context.create_dependency(replace(Coordinate.parse(c), scope="compile")) for c in coordinates]
        inputs, transitive = context.resolver.resolve(roots)
        lines = set()
        for found in (*inputs, *(d for d in transitive if d.scope in ("compile", "runtime"))):
            digest = hashlib.sha256(Path(found.artifact.resolve()).read_bytes()).hexdigest()
            lines.add((f"{found.groupId}:{found.artifactId}:{found.version}", digest))
        return "".join(f"{digest}  {name}\n" for name, digest in sorted(lines))
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    sys.stdout.write(pin(sys.argv[1:]))
