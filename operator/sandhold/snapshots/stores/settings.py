"""What the backends file says about a store. Credentials and MAC keys are files of the mover's and never stand here."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Verify(StrEnum):
    """How the mover convinces itself that what it stored is what it read."""

    CHECKSUM = "Checksum"
    """By the SHA-256 that the server checked each part against; by reading back where the server gives none."""
    READ_BACK = "ReadBack"
    """By reading every byte back."""


class Checksums(StrEnum):
    """When requests carry checksums; older look-alikes of S3 choke on them."""

    WHEN_SUPPORTED = "WhenSupported"
    WHEN_REQUIRED = "WhenRequired"


class S3StoreConfig(BaseModel):
    """One store that speaks S3."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["s3"] = Field(description="Kind of the store.")
    endpoint: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="URL of the service, without a bucket; without it, AWS of the region."
    )
    region: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        default="us-east-1", description="Region that requests are signed for."
    )
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")] = Field(
        description="Bucket; it is never created by us."
    )
    prefix: Annotated[str, Field(max_length=256, pattern=r"^([A-Za-z0-9._-]+/)*$")] = Field(
        default="", description="What every key starts with, empty or ending in a slash."
    )
    addressing_style: Literal["path", "virtual"] = Field(
        default="path", description="Where the bucket stands in a request: in the path or in the host's name."
    )
    verify: Verify = Field(
        default=Verify.CHECKSUM, description="How a stored layer is verified before its manifest is written."
    )
    checksums: Checksums = Field(
        default=Checksums.WHEN_SUPPORTED, description="Whether requests carry checksums that S3 does not demand."
    )
    ca_file: Annotated[str, Field(max_length=1024, pattern=r"^/")] | None = Field(
        default=None, description="PEM file, mounted into the mover, that the endpoint's certificate is checked with."
    )

    @field_validator("endpoint")
    @classmethod
    def _is_a_plain_url(cls, value: str | None) -> str | None:
        """Refuse what would carry a credential or a bucket into every message that names the store."""
        if value is None:
            return None
        scheme, _, rest = value.partition("://")
        if scheme not in {"http", "https"} or not rest or any(mark in rest.rstrip("/") for mark in "@/?#"):
            raise ValueError("endpoint must be http:// or https://, a host and maybe a port, and nothing more")
        return value.rstrip("/")

    @field_validator("prefix")
    @classmethod
    def _has_no_dots_alone(cls, value: str) -> str:
        if any(part in {".", ".."} for part in value.split("/")):
            raise ValueError("prefix must not hold the parts '.' or '..'")
        return value
