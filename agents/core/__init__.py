"""What every case and every step has, whatever it is about: state, contract, flow, registry, failures, asking a model."""
