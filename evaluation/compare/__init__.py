"""``newsproof backtest compare``: tests whether two runs judge differently, and with what certainty.

stored rows, returns and texts (:mod:`inputs`) -> pairs of cases (:mod:`pairing`) -> terms and metrics (:mod:`terms`,
:mod:`metrics`, :mod:`segments`) -> a comparison (:mod:`comparison`) -> text (:mod:`terminal`, :mod:`documents`).
What may be claimed of it: :mod:`code_identity`, :mod:`run_records`. A run that grows: :mod:`watch`.
"""
