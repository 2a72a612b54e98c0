"""The command line of `hack/images`."""

import argparse
import sys
from collections.abc import Sequence

from imaging import builds, loading
from testbed import packages
from testbed.failure import TestbedError


def main(arguments: Sequence[str]) -> int:
    """Run one verb; 0 is well, 1 is a sentence on standard error."""
    parser = argparse.ArgumentParser(prog="hack/images", description="The images of this project.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    for name, text in (
        ("build", "build what is missing into the cache and print each image's name"),
        ("load", "build what is missing and give the test cluster what it does not have yet"),
    ):
        verbs.add_parser(name, help=text, description=text)
    verb = parser.parse_args(arguments).verb
    try:
        packages.require_root()
        packages.ensure_installed()
        images = builds.build_all()
        if verb == "load":
            loading.load_all(images)
    except TestbedError as error:
        print(f"hack/images: {error}", file=sys.stderr)
        return 1
    for image in images:
        print(image.reference)
    return 0
