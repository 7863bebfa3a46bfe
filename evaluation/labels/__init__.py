"""Labels: which claims people found true or false, and how a run's judgements compare with that.

A file and the cases that it names (:mod:`label_file`) -> the table ``labels`` and the metrics (:mod:`label_report`).

Confidence is how likely a claim is true. A hit is a price that moved the way of the order. A true claim whose price moved the
other way is a correct judgement and a miss, so labels and outcomes are measured apart.
"""
