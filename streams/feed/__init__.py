"""The web's view of the log: live items, pages of the past, and turns of research chats. No consumer group."""
