"""The native test cluster: real Kubernetes parts run as plain processes, for machines without a container engine."""
