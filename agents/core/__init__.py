"""The core of every flow: case state, step contract, flow, registry, failure policy, model calls.

``case`` and ``model_calls`` belong to the news pipeline, as ``turn`` and ``agent_calls`` of :mod:`agents.research` belong to
the chat. All other modules serve both.
"""
