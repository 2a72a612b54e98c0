"""The command line of `hack/demo`."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from demonstration.stage import Stage
from demonstration.story import Story
from imaging import builds, loading
from installation import bucket
from installation.client import Cluster
from installation.deploying import NAMESPACE, install
from installation.preparing import bring_up, cluster_to_oneself
from testbed import places
from testbed.failure import TestbedError


def main(arguments: Sequence[str]) -> int:
    """Show it; 0 only when everything held."""
    parser = argparse.ArgumentParser(
        prog="hack/demo",
        description="Bring up a real cluster, install Sandhold and run its main job. The cluster stays up.",
    )
    parser.parse_args(arguments)
    stage = Stage()
    try:
        with cluster_to_oneself():
            _prepare_and_tell(stage)
    except (TestbedError, subprocess.SubprocessError) as error:
        print(f"\nhack/demo: {error}", file=sys.stderr)
        return 1
    stage.table()
    return 0


def _prepare_and_tell(stage: Stage) -> None:
    with stage.step("Bring the cluster up"):
        bring_up()
    with stage.step("Build and load the images"):
        images = builds.build_all()
        loading.load_all(images)
    cluster = Cluster()
    try:
        with stage.step("Look at the cluster and its object store"):
            stage.kubectl(cluster, "get", "nodes,runtimeclasses", "-o", "wide")
            stage.say(f"s3: {places.S3_URL}, bucket {places.S3_BUCKET}: {len(bucket.sizes())} objects")
        with stage.step("Install Sandhold with Helm"):
            install(cluster, images)
            stage.kubectl(cluster, "get", "pods,services", "-n", NAMESPACE)
        # Names sort by time, and no two runs share a workspace.
        session = f"quill-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        Story(stage, cluster, session).tell()
    finally:
        cluster.close()
