"""Labels: what people found out to be true or false, and how judgements stand against that.

a file (:mod:`file`) -> the cases that it names (:mod:`cases`) -> the table ``labels`` (:mod:`tables`) -> figures
(:mod:`judging`). Only tables touches a server.

Confidence says how likely a claim is true; a hit says that a price moved the way of the order. A true claim whose price
moved the other way is a correct judgement and a miss, so labels and outcomes are measured apart.
"""
