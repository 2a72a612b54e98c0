"""The command line of `hack/install`."""

import argparse
import sys
from collections.abc import Sequence

from imaging import builds, loading
from installation.client import Cluster
from installation.deploying import NAMESPACE, install
from testbed.failure import TestbedError


def main(arguments: Sequence[str]) -> int:
    """Install; 0 is well, 1 is a sentence on standard error."""
    parser = argparse.ArgumentParser(
        prog="hack/install", description="Install Sandhold, as it is in this tree, into the running test cluster."
    )
    parser.add_argument("--for-tests", action="store_true", help="add the broken store and tier that e2e tests use")
    options = parser.parse_args(arguments)
    try:
        images = builds.build_all()
        loading.load_all(images)
        cluster = Cluster()
        try:
            seconds = install(cluster, images, for_tests=options.for_tests)
            print(f"installed into {NAMESPACE} in {seconds:.1f} s")
            print(cluster.kubectl("get", "pods", "-n", NAMESPACE))
        finally:
            cluster.close()
    except TestbedError as error:
        print(f"hack/install: {error}", file=sys.stderr)
        return 1
    return 0
