"""What ``lab follow`` counts; the servers that it starts are tested where they are made."""

from __future__ import annotations

import sys
import threading

from lab import follow
from lab.follow import PACKAGES, Recorder, figures
from schemas.topics import Topics

A, B, C = "streams/sink/sink.py", "streams/worker.py", "schemas/ids.py"


def test_a_change_is_a_call_into_another_file_than_the_one_before() -> None:
    found = figures([(1, A), (1, A), (1, B), (1, C), (1, B)], seconds=1.234)
    assert (found.files, found.calls, found.changes, found.seconds) == (3, 5, 3, 1.23)
    assert found.calls_by_file == {A: 2, B: 2, C: 1}


def test_files_and_changes_are_put_down_to_the_package_that_is_entered() -> None:
    found = figures([(1, A), (1, B), (1, C), (1, B)], seconds=0)
    assert found.files_by_package == dict.fromkeys(PACKAGES, 0) | {"streams": 2, "schemas": 1}
    assert found.changes_by_package == dict.fromkeys(PACKAGES, 0) | {"streams": 2, "schemas": 1}


def test_calls_of_different_threads_do_not_follow_each_other() -> None:
    assert figures([(1, A), (2, B), (1, A), (2, B)], seconds=0).changes == 0
    assert figures([(1, A), (2, B), (1, A), (2, A)], seconds=0).changes == 1


def test_without_calls_everything_is_zero() -> None:
    nothing = figures([], seconds=0)
    assert (nothing.files, nothing.changes, nothing.calls, nothing.calls_by_file) == (0, 0, 0, {})


async def test_only_calls_of_the_packages_are_kept_and_only_while_recording() -> None:
    recorder = Recorder()
    topics = Topics("")

    async def work() -> None:
        assert topics.news  # a property in schemas
        follow.figures([], seconds=0)  # in lab: the observer does not count itself

    try:
        recorded = await recorder.during(work())
        again = await recorder.during(work())
    finally:
        sys.setprofile(None)
    assert set(recorded.calls_by_file) == {"schemas/topics.py"}
    assert again.calls == recorded.calls >= 1


async def test_threads_that_were_started_before_a_recording_are_recorded() -> None:
    recorder = Recorder()
    topics, go, gone = Topics(""), threading.Event(), threading.Event()

    def run() -> None:
        go.wait(10)
        assert topics.news
        gone.set()

    threading.setprofile(recorder.observe)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.setprofile(None)

    async def work() -> None:
        go.set()
        gone.wait(10)

    recorded = await recorder.during(work())
    thread.join(10)
    assert recorded.calls_by_file == {"schemas/topics.py": 1}
