"""Outage simulation in virtual time: the real steps, effects host and breakers, on a clock that skips every wait."""

from lab.outage.report import Minute, OutageReport
from lab.outage.run import Trouble, outage

__all__ = ["Minute", "OutageReport", "Trouble", "outage"]
