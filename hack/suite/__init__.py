"""Runs everything that `make test` runs, and adds up what each part says of itself."""
