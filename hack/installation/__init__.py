"""Installs Sandhold into the test cluster with Helm, as users do; and the clients that demo, tests and bench share."""
