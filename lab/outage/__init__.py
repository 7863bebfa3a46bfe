"""Outage simulation in virtual time: a worker on a log in memory and a clock that skips every wait."""

from lab.outage.report import Minute, OutageReport
from lab.outage.run import Trouble, outage

__all__ = ["Minute", "OutageReport", "Trouble", "outage"]
