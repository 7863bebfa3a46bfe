"""``newsproof backtest compare``: tests whether two runs judge differently, and with what certainty.

rows (:mod:`reading`) -> pairs of cases (:mod:`pairing`) -> figures (:mod:`metrics`) -> a comparison (:mod:`comparison`)
-> text (:mod:`terminal`, :mod:`documents`). Only reading touches a server.
"""
