"""The planning of a round: the step plan, its rules, the tools that it may choose, their calls and their replies.

``plan`` is a step of the news pipeline. It lies here, beside its rules, and not with the other steps.
"""
