"""`python -m imaging`."""

import sys

from imaging.cli import main

sys.exit(main(sys.argv[1:]))
