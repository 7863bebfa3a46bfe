"""The decision logic: steps, rules, prompts and tables. Pure. ``graphs`` assembles flows, ``signal`` builds signals."""
