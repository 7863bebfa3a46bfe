"""The core of every flow: case state, step contract, flow, registry, failure policy, model calls."""
