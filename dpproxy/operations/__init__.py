"""What operators do to a proxy that serves: requests and replies, the audit log, roles that are paused."""
