"""The core of every flow: case state, step contract, flow, registry, failure policy, model calls.

``case`` and ``asking`` are the news pipeline's, as ``turn`` and ``asking`` of :mod:`agents.research` are the chat's; all other
modules serve both.
"""
