"""Replay: recorded cases, the change that a replay makes, and the check that a log replays byte for byte."""
