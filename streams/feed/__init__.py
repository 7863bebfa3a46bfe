"""The web's view of the log: live items, pages of the past, and the turns of research chats, read without any group."""
