"""What one client may take of the proxy's time, memory, disk and places, so that it stays open to the others."""
