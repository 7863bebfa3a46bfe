"""What is decided: steps, rules, prompts and tables. Pure; a flow is put together in ``graphs``, a signal in ``signal``."""
