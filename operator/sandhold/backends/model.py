"""The backends file: what the platform team allows, validated whole. snake_case, since it is the seed's vocabulary.

Unknown keys are refused: a misspelt limit that is silently ignored is no limit. Keys of later versions are unknown too.
Nothing here reads files or the cluster; secrets are never in this file.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sandhold.api.quantity import is_quantity
from sandhold.snapshots.stores.settings import S3StoreConfig

_NAME = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_OBJECT_NAME = r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$"
_IMAGE = r"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*$"

Name = Annotated[str, Field(pattern=_NAME)]
ImagePattern = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._:/@-]*([/:@]\*)?$")
]
Image = Annotated[str, Field(min_length=1, max_length=1024, pattern=_IMAGE)]


class ConfigModel(BaseModel):
    """A part of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CniEgress(ConfigModel):
    """Walls by NetworkPolicy alone. It has no settings: write {}."""


class Egress(ConfigModel):
    """What enforces the network walls of a tier: exactly one mechanism. Only `cni` is available."""

    cni: CniEgress
    """NetworkPolicy enforced by the cluster's network plugin. Names are not checked, and DNS can tunnel."""

    @model_validator(mode="before")
    @classmethod
    def _one_mechanism(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            later = [name for name in ("gateway", "sidecar") if name in value]
            if later:
                raise ValueError(f"{' and '.join(later)} is not available yet; use cni: {{}}")
            if not value:
                raise ValueError("no egress mechanism is given; use cni: {}")
        return value

    @property
    def mechanism(self) -> str:
        """The mechanism's name, as status shows it."""
        return "cni"


class Tier(ConfigModel):
    """One isolation tier."""

    runtime_class: Annotated[str, Field(pattern=_OBJECT_NAME)]
    """RuntimeClass that every pod of the tier is pinned to."""
    egress: Egress
    """What enforces its network walls."""
    default_image: Image | None = None
    """Image of sandboxes that name none."""


class Backends(ConfigModel):
    """The whole configuration."""

    installation_id: Annotated[str, Field(pattern=_NAME)]
    """Stable and unique: it stands on everything that this installation makes, and only that is ever collected."""
    default_tier: Name
    """Tier of sandboxes that name none."""
    tiers: Annotated[dict[Name, Tier], Field(min_length=1, max_length=64)]
    """The isolation tiers, by name."""
    image_allowlist: Annotated[tuple[ImagePattern, ...], Field(max_length=1024)] | None = None
    """Images that sandboxes may use, compared as text: exact, or everything after a final `/*`, `:*` or `@*`.
    Left out: any image. Empty: none."""
    resource_defaults: Annotated[dict[str, str], Field(max_length=16)] = Field(default_factory=dict)
    """Limits of agents by resource, where an AgentSandbox gives none."""
    sandbox_ttl_seconds: Annotated[int, Field(ge=60, le=31536000)] | None = None
    """Sessions are suspended so long after they first became Ready, unless they or their AgentSandbox say otherwise."""
    stores: Annotated[dict[Name, S3StoreConfig], Field(max_length=16)] = Field(default_factory=dict)
    """Where archives go, by name. Credentials are the mover's."""
    default_store: Name | None = None
    """Store of sandboxes that name none. May be left out where there is at most one store."""

    @field_validator("resource_defaults")
    @classmethod
    def _are_quantities(cls, amounts: dict[str, str]) -> dict[str, str]:
        wrong = [name for name, amount in amounts.items() if not is_quantity(amount)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} is not a quantity such as 500m, 2 or 4Gi")
        return amounts

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        known = ", ".join(self.tiers)
        if self.default_tier not in self.tiers:
            raise ValueError(f"default_tier {self.default_tier} is none of the tiers ({known}); name one of them")
        if self.default_store is None and len(self.stores) > 1:
            # The order of a mapping is no choice: the tools on the way to us sort it.
            raise ValueError(
                f"default_store is missing, and there are several stores ({', '.join(self.stores)}); name one"
            )
        if self.default_store is not None and self.default_store not in self.stores:
            raise ValueError(f"default_store {self.default_store} is none of the stores; name one of them")
        for name, tier in self.tiers.items():
            if tier.default_image is not None and not self.allows(tier.default_image):
                raise ValueError(
                    f"tiers.{name}.default_image {tier.default_image} is not on image_allowlist; add it there"
                )
        return self

    def store_for(self, named: str | None) -> str | None:
        """The store that an AgentSandbox's archives go to: the one it names, else the default; None without any."""
        return named or self.default_store or next(iter(self.stores), None)

    def allows(self, image: str) -> bool:
        """Whether the allow-list admits an image."""
        if self.image_allowlist is None:
            return True
        return any(_image_matches(pattern, image) for pattern in self.image_allowlist)


def _image_matches(pattern: str, image: str) -> bool:
    if not pattern.endswith("*"):
        return image == pattern
    start, rest = pattern[:-1], image[len(pattern) - 1 :]
    # What follows a tag's colon may be a registry's port and another image: no tag and no digest has a slash.
    return image.startswith(start) and rest != "" and (start.endswith("/") or "/" not in rest)


def default_backends(installation_id: str) -> Backends:
    """What is in force without a file: one tier `runc`, not for untrusted work, and no store."""
    tier = Tier(runtime_class="runc", egress=Egress(cni=CniEgress()))
    return Backends(installation_id=installation_id, default_tier="runc", tiers={"runc": tier})
