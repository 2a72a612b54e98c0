"""What `sandhold-operator` starts: the operator, or with `ask` a question to the one that runs in this container.

It imports nothing before it knows which: a question must not cost the memory of a second operator beside the first.
"""

import sys


def main() -> None:
    """Run the operator, or ask it."""
    if sys.argv[1:2] == ["ask"]:
        from sandhold.handlers import ask  # noqa: PLC0415 - each without the other

        sys.exit(ask.main(sys.argv[2:]))
    if sys.argv[1:]:
        sys.exit(f"sandhold-operator: unknown argument {sys.argv[1]}: there is only `ask`, and none to run")
    from sandhold.handlers import program  # noqa: PLC0415 - as above

    program.main()
