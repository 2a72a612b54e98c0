"""Deciding: everything observed goes in, everything wanted comes out. Nothing in this package does I/O."""
