"""Commands that check and administer an installation."""
