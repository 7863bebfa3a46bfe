"""Many candidates, and what may be claimed of them: the ledger of trials, the sealed period, leaderboard, walk-forward.

What was chosen on a period by its figures there looks better on it than it is. So every run is written down with the
period that it looked at, before its first case is decided, and a claim counts who has looked before.
"""
