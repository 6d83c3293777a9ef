"""One client: state machine, relay, cancel, settings. The only room that knows all the others."""
