"""Keeping a workspace: manifests, their keys, and the stores they lie in."""
