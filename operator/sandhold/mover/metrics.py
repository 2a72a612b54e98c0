"""Every metric of the mover, declared once. Labels come from enumerations of ours, never from a pod's or store's words.

Nothing is labelled by pod, slot or session: a mover serves any number of them. What moves bytes increments these; the
records and manifests (pure) know nothing of them.
"""

from prometheus_client import Counter, Gauge, Histogram

_TRANSFER_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

BYTES = Counter(
    "sandhold_mover_bytes_total",
    "Bytes of layers as they travel, compressed: `in` from keepers, `out` to keepers.",
    ("direction",),
)
TRANSFERS = Counter(
    "sandhold_mover_transfers_total",
    "Archives and restores by how they ended: `done`, a failure's code, or `ended` when the keeper or the mover went.",
    ("verb", "outcome"),
)
TRANSFER_SECONDS = Histogram(
    "sandhold_mover_transfer_seconds",
    "Duration of archives and restores that were done, waiting for their turn included.",
    ("verb",),
    buckets=_TRANSFER_BUCKETS,
)
TRANSFERS_RUNNING = Gauge("sandhold_mover_transfers_running", "Archives and restores under way.", ("verb",))
KEEPERS = Gauge("sandhold_mover_keepers", "Keepers whose control connection is here.")
CONNECTIONS = Gauge(
    "sandhold_mover_connections",
    "Connections to the keepers' port: `unproven`, with a token under `review`, or `proven`.",
    ("state",),
)
REFUSED_HELLOS = Counter(
    "sandhold_mover_refused_hellos_total",
    "Connections to the keepers' port that came to nothing, by reason.",
    ("reason",),
)
PRUNED_CHECKPOINTS = Counter("sandhold_mover_pruned_checkpoints_total", "Checkpoints that newer ones made superfluous.")
PRUNE_FAILURES = Counter(
    "sandhold_mover_prune_failures_total", "Prunings that were left for the next checkpoint because the store failed."
)
STORE_ERRORS = Counter(
    "sandhold_mover_store_errors_total", "Calls to object stores that failed, after the client's own tries.", ("code",)
)
