"""One client's conversation: both query protocols, the relay, cancel requests, settings. Knows no engine and no mechanism."""
