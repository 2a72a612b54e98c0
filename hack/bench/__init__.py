"""`make bench`: what a sandbox costs over a bare pod, measured on the real cluster, written to build/bench.json."""
