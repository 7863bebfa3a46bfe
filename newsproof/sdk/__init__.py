"""The SDK: ``publish`` and ``subscribe``, as ``newsproof`` exports them."""
