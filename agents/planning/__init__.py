"""The planning of a round: the step ``plan``, its rules, the tools that it may choose, and their answers.

``plan`` is a step of the news pipeline; it lies here, beside its rules, and not with the other steps.
"""
