"""The parts of an AgentSandbox that end up in its pod: container, environment, ports, resources, placement."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sandhold.api.model import ApiModel, ListMap, Rule
from sandhold.api.quantity import Quantity, cel_is_quantity, is_quantity, quantity_value
from sandhold.api.texts import (
    ENV_NAME,
    LABEL_VALUE,
    NO_NUL,
    PORT_NAME,
    QUALIFIED_NAME,
    RESERVED_ENV_PREFIX,
    cel_text,
    matches,
    name_rule,
    pattern_rule,
)

ENV_CHARACTERS = 16384
"""What the names and values of one environment list may hold together, so that it fits into one word to init."""


class EnvVar(ApiModel):
    """One environment variable."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=256),
        pattern_rule(ENV_NAME, "env name must hold letters, digits and '_' only, and not begin with a digit"),
        Rule(
            cel=f"!self.startsWith('{RESERVED_ENV_PREFIX}')",
            message=f"env name must not begin with {RESERVED_ENV_PREFIX}: those names belong to Sandhold",
            holds=lambda name: not name.startswith(RESERVED_ENV_PREFIX),
        ),
    ] = Field(description="Name of the variable: letters, digits and underscores, not beginning with a digit.")
    value: Annotated[
        str,
        Field(max_length=8192),
        NO_NUL,
    ] = Field(default="", description="Its value, taken literally: $(NAME) is not expanded. Not for secrets.")


def _env_length(env: tuple[EnvVar, ...]) -> int:
    return sum(len(item.name) + len(item.value) for item in env)


Environment = Annotated[
    tuple[EnvVar, ...],
    Field(max_length=64),
    ListMap(("name",)),
    Rule(
        cel=f"self.map(e, e.name.size() + (has(e.value) ? e.value.size() : 0)).sum() <= {ENV_CHARACTERS}",
        message=f"env must not hold more than {ENV_CHARACTERS} characters in all; put more into the workspace",
        holds=lambda env: _env_length(env) <= ENV_CHARACTERS,
    ),
]

Words = Annotated[
    tuple[Annotated[str, Field(max_length=8192), NO_NUL], ...],
    Field(max_length=128),
]


class ImagePullSecret(ApiModel):
    """A Secret of the same namespace with registry credentials."""

    name: Annotated[str, Field(min_length=1, max_length=253), name_rule("imagePullSecrets name")] = Field(
        description="Name of the Secret."
    )


class Port(ApiModel):
    """A port that the agent listens on."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=15),
        pattern_rule(
            PORT_NAME, "ports name must hold lower-case letters, digits and single '-' between them, such as http"
        ),
    ] = Field(description="Name of the port, unique within the sandbox.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(description="Port number that the agent listens on.")
    protocol: Literal["TCP", "UDP"] = Field(default="TCP", description="TCP or UDP.")


def _ports_differ(ports: tuple[Port, ...]) -> bool:
    return len({(item.port, item.protocol) for item in ports}) == len(ports)


Ports = Annotated[
    tuple[Port, ...],
    Field(max_length=16),
    ListMap(("name",)),
    Rule(
        cel="self.all(p, self.exists_one(q, q.port == p.port && q.protocol == p.protocol))",
        message="ports must not list the same port and protocol twice",
        holds=_ports_differ,
    ),
]


_RESOURCE = r"^(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|[a-z0-9.-]+/[A-Za-z0-9._-]+)$"


def _all_quantities(amounts: dict[str, str]) -> bool:
    return all(is_quantity(amount) for amount in amounts.values())


def _names_of_resources(amounts: dict[str, str]) -> bool:
    return all(matches(_RESOURCE, name) for name in amounts)


def _resource_names(field: str) -> Rule:
    return Rule(
        cel=f"self.all(k, k.matches({cel_text(_RESOURCE)}))",
        message=f"resources.{field} must name cpu, memory, ephemeral-storage or a device such as nvidia.com/gpu",
        holds=_names_of_resources,
    )


def _amounts(field: str) -> Rule:
    return Rule(
        cel=f"self.all(k, {cel_is_quantity('string(self[k])')})",
        message=f"resources.{field} must hold quantities that are not negative, such as cpu: 500m, memory: 1Gi",
        holds=_all_quantities,
    )


def _requests_fit(resources: "Resources") -> bool:
    limits = resources.limits
    return all(
        name not in limits or quantity_value(amount) <= quantity_value(limits[name])
        for name, amount in resources.requests.items()
    )


class Resources(ApiModel):
    """Compute resources of the agent container."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=(
                "!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || "
                "!isQuantity(string(self.requests[k])) || !isQuantity(string(self.limits[k])) || "
                "quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)"
            ),
            message="resources.requests must not be larger than resources.limits for the same resource",
            holds=_requests_fit,
        ),
    )

    requests: Annotated[
        dict[str, Quantity], Field(max_length=16), _resource_names("requests"), _amounts("requests")
    ] = Field(
        default_factory=dict,
        description="What the scheduler reserves: quantities by resource, such as cpu: 500m, memory: 1Gi.",
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=16), _resource_names("limits"), _amounts("limits")] = Field(
        default_factory=dict, description="What the agent may use at most: quantities by resource."
    )


class Toleration(ApiModel):
    """A taint that the pod tolerates."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="tolerations value must be left out when operator is Exists",
            holds=lambda item: item.operator != "Exists" or not item.value,
        ),
        Rule(
            cel="self.operator == 'Exists' || (has(self.key) && self.key != '')",
            message="tolerations key is needed unless operator is Exists",
            holds=lambda item: item.operator == "Exists" or bool(item.key),
        ),
    )

    key: (
        Annotated[
            str,
            Field(max_length=316),
            pattern_rule(f"^$|{QUALIFIED_NAME}", "tolerations key must be the key of a taint, such as example.com/gpu"),
        ]
        | None
    ) = Field(default=None, description="Key of the taint; none, with operator Exists, means every taint.")
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal", description="Equal compares key and value, Exists the key alone."
    )
    value: (
        Annotated[
            str, Field(max_length=63), pattern_rule(LABEL_VALUE, "tolerations value must be the value of a taint")
        ]
        | None
    ) = Field(default=None, description="Value of the taint, for operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Effect of the taint; none means every effect."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=31536000)] | None = Field(
        default=None, description="For effect NoExecute: for how many seconds the taint is tolerated."
    )


def _all_labels(labels: dict[str, str]) -> bool:
    return all(matches(QUALIFIED_NAME, key) and matches(LABEL_VALUE, value) for key, value in labels.items())


_LABELS = Rule(
    cel=f"self.all(k, k.matches({cel_text(QUALIFIED_NAME)}) && self[k].matches({cel_text(LABEL_VALUE)}))",
    message="pod.nodeSelector must hold labels of nodes, such as kubernetes.io/arch: amd64",
    holds=_all_labels,
)


class PodPlacement(ApiModel):
    """Where the pod may run."""

    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=32), _LABELS] = Field(
        default_factory=dict, description="Labels that the node must have. The tier's runtime class may add others."
    )
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = Field(
        default=(), description="Taints that the pod tolerates."
    )
