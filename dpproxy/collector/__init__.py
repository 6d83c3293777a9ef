"""Takes reports of devices, keeps them until they are loaded into a store, and keeps nothing of who sent them."""
