"""Where a sandbox may connect: one capability, and every half of it."""
