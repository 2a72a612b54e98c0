"""What a process is told by its environment: the only place that reads it, grouped by program, frozen once read.

The backends file (tiers, tenants, stores) is not here: it is the platform team's document and lives in `backends/`.
No secret is ever taken from the environment; programs read secrets from mounted files whose folders are named here.
"""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from sandhold import names
from sandhold.logs import LogFormat


class OperatorSettings(BaseSettings):
    """Settings of `sandhold-operator`."""

    model_config = SettingsConfigDict(env_prefix="SANDHOLD_", frozen=True, extra="ignore")

    namespace: str = Field(description="Namespace of the operator itself: its Lease, its Secrets, the mover's Service.")
    pod_name: str = Field(default="operator", description="Holder identity in the election Lease.")
    backends: Path | None = Field(
        default=None,
        description="The backends file. Without it: sandbox-backends.json or .yaml in /etc/sandhold, then ~/.sandhold.",
    )
    keeper_image: str = Field(description="Image of the keeper sidecar.")
    keeper_image_pull_policy: str = Field(default="IfNotPresent", description="Pull policy of the keeper image.")
    workers: int = Field(default=8, ge=1, le=64, description="Reconciles that may run at once.")
    resync_seconds: float = Field(default=300, ge=5, description="Each kind is listed anew and compared after so long.")
    lease_seconds: float = Field(default=15, ge=3, description="A standby takes over after so long without a renewal.")
    sweep_interval_seconds: float = Field(default=600, ge=1, description="Pause between two sweeps for orphans.")
    sweep_grace_seconds: float = Field(
        default=600, ge=1, description="An orphan is collected so long after it was made and was first seen as one."
    )
    sweep_breaker_share: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="A sweep that finds more orphans than 5 and than this share of what it looked at deletes nothing.",
    )
    sweep_dry_run: bool = Field(default=False, description="Sweeps say what they would collect, and delete nothing.")
    log_level: str = Field(default="INFO", description="Threshold of the log, a name of Python's logging levels.")
    log_format: LogFormat = Field(default="json", description="json: one object a line. text: lines for people.")
    metrics_port: int = Field(default=8080, description="Port of /metrics.")
    health_port: int = Field(default=8081, description="Port of /livez and /readyz.")
    questions_socket: Path = Field(
        default=Path(names.PATH_QUESTIONS),
        description="Unix socket where `sandhold-operator ask` is answered; `sandhold plan` uses the default.",
    )


class MoverSettings(BaseSettings):
    """Settings of `sandhold-mover`."""

    model_config = SettingsConfigDict(env_prefix="SANDHOLD_", frozen=True, extra="ignore")

    tls_directory: Path = Field(
        default=Path("/etc/sandhold/mover-tls"),
        description="Mounted Secret: tls.crt, tls.key, ca.crt, grant.pub (PEM, Ed25519).",
    )
    backends: Path | None = Field(
        default=None,
        description="The backends file. Without it: sandbox-backends.json or .yaml in /etc/sandhold, then ~/.sandhold.",
    )
    stores_directory: Path = Field(
        default=Path("/etc/sandhold/stores"),
        description="One folder a store: access-key-id, secret-access-key, mac-keys.json (key id to hexadecimal key).",
    )
    kubernetes_api: str = Field(default="https://kubernetes.default.svc", description="API server, for TokenReviews.")
    service_account_directory: Path = Field(
        default=Path("/var/run/secrets/kubernetes.io/serviceaccount"),
        description="The mover's own token and the cluster's CA.",
    )
    listen_address: str = Field(default="0.0.0.0", description="Address that every port is opened on.")  # noqa: S104
    keeper_port: int = Field(default=7443, description="Port where keepers call home.")
    operator_port: int = Field(default=7444, description="Port of the operator's connection.")
    canary_port: int = Field(default=7445, description="Port that only a sandbox's wall can block.")
    log_level: str = Field(default="INFO", description="Threshold of the log, a name of Python's logging levels.")
    log_format: LogFormat = Field(default="json", description="json: one object a line. text: lines for people.")
    metrics_port: int = Field(default=8080, description="Port of /metrics.")
    health_port: int = Field(default=8081, description="Port of /livez and /readyz.")
