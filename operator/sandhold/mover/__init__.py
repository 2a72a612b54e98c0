"""The mover: where keepers call home, and the only holder of store credentials."""
