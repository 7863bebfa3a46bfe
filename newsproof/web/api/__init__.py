"""Routes of the HTTP API: live stream, analytics and research chat; and the documents that they return."""
