"""Builders and fakes for the tests."""
