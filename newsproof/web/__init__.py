"""The web service: the HTTP API, the live stream, the research chat and the page. ``newsproof web`` runs it."""
