"""An outage in compressed time: the real steps, effects host and breakers, on a clock that skips every wait."""

from newsproof.outage.report import Minute, OutageReport
from newsproof.outage.run import Trouble, outage

__all__ = ["Minute", "OutageReport", "Trouble", "outage"]
