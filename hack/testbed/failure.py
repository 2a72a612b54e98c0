"""The one error that this program raises on purpose: a sentence for the person at the terminal, no traceback."""


class TestbedError(Exception):
    """Something that the user can read and act on; every other exception is a defect and keeps its traceback."""

    __test__ = False  # the name begins like a test class, and pytest would try to collect it
