"""`python -m installation`."""

import sys

from installation.cli import main

sys.exit(main(sys.argv[1:]))
