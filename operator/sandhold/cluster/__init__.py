"""The only door to the API server and, on the operator's side, to the movers."""
