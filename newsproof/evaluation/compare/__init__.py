"""``newsproof backtest compare``: is one run's judgement different from another's, and how sure is that.

rows (:mod:`reading`) -> pairs of cases (:mod:`pairing`) -> figures (:mod:`metrics`) -> a comparison (:mod:`comparison`)
-> rules of ``--fail-on`` (:mod:`rules`) -> text (:mod:`terminal`, :mod:`documents`). Only reading touches a server.
"""
