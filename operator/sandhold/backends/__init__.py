"""The operator configuration: the file, where it comes from, and what it decides about a sandbox."""
