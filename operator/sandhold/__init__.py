"""Sandhold: a Kubernetes operator that gives AI agents isolated workspaces that are never lost."""

__version__ = "0.1.0"
