"""`python -m demonstration`."""

import sys

from demonstration.cli import main

sys.exit(main(sys.argv[1:]))
