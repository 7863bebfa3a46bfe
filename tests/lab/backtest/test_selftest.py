"""The self-test's news, and a small run of it: what a real worker recorded comes out as recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.backtest.generated import generated_news
from newsproof.app import exits
from tests.newsproof.command import environment

SELF_TEST = (sys.executable, "-P", "-m", "lab", "selftest")


def test_generated_news_are_the_same_for_a_seed_and_no_two_of_them_are_one_case() -> None:
    one, again, other = (list(generated_news(3000, seed=seed)) for seed in (7, 7, 8))
    assert one == again
    assert one != other
    assert len({item.case_id for item in one}) == 3000
    texts = [item.text for item in one]
    assert 0.9 * 3000 < len(set(texts)) < 3000  # copies are copies
    assert len({(item.source, item.external_id) for item in one}) < 3000  # edits keep their id
    assert any("denies" in text or "否认" in text for text in texts)


@pytest.mark.long
@pytest.mark.slow
def test_what_a_worker_recorded_comes_out_byte_for_byte_and_its_log_stays_where_it_was_asked_for(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "log"
    arguments = ("--cases", "8", "--seed", "3", "--kills", "0", "--data-dir", str(directory))
    done = subprocess.run(
        [*SELF_TEST, *arguments], cwd=tmp_path, env=environment(), capture_output=True, timeout=300, check=False
    )
    assert done.returncode == exits.OK, done.stderr.decode()
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["cases"], found["identical"], found["calls"], found["misses"]) == (8, 8, 0, 0)
    assert sum(found["ends"].values()) == 8
    refused = subprocess.run(
        [*SELF_TEST, *arguments], cwd=tmp_path, env=environment(), capture_output=True, timeout=60, check=False
    )
    assert refused.returncode == exits.USAGE and b"is not empty: name a new directory" in refused.stderr
