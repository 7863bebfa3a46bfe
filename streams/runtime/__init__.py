"""From journal to steps and back: fold, dispatch, deadlines, and what is done about steps that kill the process."""
