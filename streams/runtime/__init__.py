"""From journal to steps and back: fold, dispatch, deadlines, and isolation of steps that kill the process."""
