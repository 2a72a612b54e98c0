"""A real S3 server (versitygw, the one that the test cluster runs) on loopback, with its objects in a folder.

It can be stopped and started again on the same port, and its objects can be damaged behind its back. The binary comes
from the cache of `hack/cluster build`; where it is not there yet, it is built.
"""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from testbed.build import build_all
from testbed.components import COMPONENTS
from testbed.places import cache
from testkit.ports import free_port

ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret-key"
BUCKET = "archives"
_START_SECONDS = 20.0


def binary() -> Path:
    """The server's binary."""
    component = next(one for one in COMPONENTS if one.name == "versitygw")
    return build_all([component], cache())["versitygw"] / "versitygw"


class S3Server:
    """One server process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.bucket = BUCKET
        (folder / BUCKET).mkdir(parents=True)

    def start(self) -> None:
        """Start, and wait until it answers."""
        environment = {"PATH": os.environ["PATH"], "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        address = f"127.0.0.1:{self._port}"
        self._process = subprocess.Popen(
            [str(binary()), "--port", address, "--quiet", "posix", str(self._folder)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """Stop; what is stored stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self) -> Any:
        """A client with all rights, for looking behind the mover's back."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(retries={"total_max_attempts": 2}, connect_timeout=2, read_timeout=10),
        )

    def list_keys(self, prefix: str = "") -> list[str]:
        """Every key of the bucket."""
        answer = self.client().list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [found["Key"] for found in answer.get("Contents", [])]

    def get(self, key: str) -> bytes:
        """An object's bytes."""
        body: bytes = self.client().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def put(self, key: str, content: bytes) -> None:
        """Put an object, replacing what is there: what only somebody with the store's keys can do."""
        self.client().put_object(Bucket=self.bucket, Key=key, Body=content)

    def put_file(self, key: str, content: bytes) -> None:
        """Put an object into the server's folder by hand: quicker for many."""
        path = self._folder / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def make_older(self, key: str, seconds: float) -> None:
        """Move an object's time in the server's listings back; 0 makes it as new as now."""
        path = self._folder / BUCKET / key
        moment = path.stat().st_mtime - seconds if seconds else time.time()
        os.utime(path, (moment, moment))

    def delete(self, key: str) -> None:
        """Delete an object."""
        self.client().delete_object(Bucket=self.bucket, Key=key)

    def uploads(self) -> list[str]:
        """Keys of multipart uploads that nobody has completed or aborted."""
        answer = self.client().list_multipart_uploads(Bucket=self.bucket)
        return [found["Key"] for found in answer.get("Uploads", [])]

    def remove_bucket(self) -> None:
        """Take the bucket away, with all that is in it."""
        shutil.rmtree(self._folder / BUCKET)
