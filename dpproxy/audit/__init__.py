"""An audit that anybody can run: what is promised is held against what happens, on invented people only."""
