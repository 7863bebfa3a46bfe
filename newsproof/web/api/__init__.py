"""The HTTP API's parts: live stream, analytics, research chat, and the documents that they answer with."""
