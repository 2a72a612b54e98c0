"""Every metric of the operator, declared once: a name with its unit, a sentence, labels that are bounded.

No label ever holds the name of a user's object. `LABELS` says what each may hold; the page of the reference and a test
are made from it. Pure code never increments anything: the shell around it does (door, apply, reconcile, queue, pump).
"""

from prometheus_client import Counter, Gauge, Histogram

LABELS = {
    "code": "HTTP status, `none` when no answer came; of refusals, a code of the reference",
    "kind": "kind of the object, of those that the operator works with",
    "loop": "`workers`, `lists`, `watches`, `election`, `movers`, `facts`, `backends`, `certificate`, `sweep`",
    "outcome": "what became of it, in one word",
    "phase": "a phase of SandboxSession; `None` before the first",
    "recovery": "where the workspace came from: `Initialized`, `Restored`, `Repaired`, `Reused`",
    "stage": "part of a start or a stop, see the metric",
    "state": "`known`, `connected`, `synced`; of keepers `connected`, `silent`",
    "tier": "tier of the backends file; `other` for one that is not (any more) in it",
    "verb": "verb of the request or of the order",
    "version": "version of the program",
    "what": "`content` (sizes of files) or `stored` (compressed, as the store holds it)",
}
_WAITS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)

# Passes.
RECONCILE_SECONDS = Histogram(
    "sandhold_reconcile_seconds",
    "Duration of one pass over one object. Outcome: settled, changed, restless, conflict, unavailable, refused, "
    "timeout, defect or cancelled.",
    ("kind", "outcome"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
QUEUE_DEPTH = Gauge("sandhold_queue_depth", "Keys that wait for a worker.")
QUEUE_OLDEST = Gauge("sandhold_queue_oldest_seconds", "How long the key that waits longest has waited.")
QUEUE_DELAYED = Gauge("sandhold_queue_delayed", "Keys that are to be looked at again at a time to come.")
QUEUE_WAIT = Histogram(
    "sandhold_queue_wait_seconds",
    "How long keys waited for a worker.",
    ("kind",),
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
)
RETRIES = Counter("sandhold_queue_retries_total", "Passes that failed and are tried again, later each time.", ("kind",))

# Sessions.
SEEN_TO_POST_SECONDS = Histogram(
    "sandhold_session_seen_to_pod_post_seconds",
    "From the first event of a new session that this process saw to the answer to its pod's POST.",
    buckets=(0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
)
START_SECONDS = Histogram(
    "sandhold_session_start_seconds",
    "Latency of starts (new, resumed, after a lost pod) that this process saw begin. Stage: `post` (seen to "
    "pod POST), `home` (POST until its keeper called home), `gate` (home to Ready), `total` (seen to Ready).",
    ("stage", "tier"),
    buckets=_WAITS,
)
STOP_SECONDS = Histogram(
    "sandhold_session_stop_seconds",
    "Latency of stops. Stage: `archived` (from the beginning until the final archive is stored and verified), `gone` "
    "(from the beginning until the pod is gone and the session at rest or let go).",
    ("stage", "tier"),
    buckets=_WAITS,
)
REFUSALS = Counter(
    "sandhold_refusals_total", "Refusals by code, counted when an object's status begins to say so.", ("kind", "code")
)
TRANSITIONS = Counter("sandhold_session_transitions_total", "Sessions that came into a phase.", ("phase",))
STARTED = Counter(
    "sandhold_session_starts_total", "Starts that became Ready, by where the workspace came from.", ("tier", "recovery")
)
PODS_LOST = Counter("sandhold_session_pods_lost_total", "Pods that were lost while their session was to run.")
SESSIONS = Gauge("sandhold_sessions", "SandboxSessions by phase.", ("phase",))
SANDBOXES = Gauge("sandhold_sandboxes", "AgentSandboxes.")
SNAPSHOTS = Gauge("sandhold_snapshots", "SandboxSnapshots.")

# Workspaces, as the operator knows them: from verified manifests.
ARCHIVES = Counter(
    "sandhold_archives_total",
    "Archives that became a session's recovery point. Outcome: final or checkpoint.",
    ("outcome",),
)
ARCHIVED_BYTES = Counter("sandhold_archived_bytes_total", "Size of those archives.", ("what",))
RESTORED_BYTES = Counter("sandhold_restored_bytes_total", "Size of the archives that starts restored.", ("what",))
OLDEST_RECOVERY_POINT = Gauge(
    "sandhold_oldest_recovery_point_seconds",
    "Age of the oldest recovery point of a Ready session that has one. An unchanged workspace is not archived again, "
    "so that of an idle session ages without harm.",
)

# The API server.
API_REQUESTS = Counter("sandhold_api_requests_total", "Requests to the API server.", ("verb", "kind", "code"))
API_SECONDS = Histogram(
    "sandhold_api_request_seconds",
    "Duration of requests to the API server.",
    ("verb",),
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15),
)
EVENTS = Counter(
    "sandhold_events_total",
    "Kubernetes Events by what became of them: written, repeated, dropped, too_late or failed.",
    ("outcome",),
)
WATCH_EVENTS = Counter("sandhold_watch_events_total", "Events that the watches delivered.", ("kind",))
WATCH_AGE = Gauge(
    "sandhold_watch_age_seconds",
    "Since when the watch of a kind has been silent. Kinds that rarely change are.",
    ("kind",),
)
LIST_AGE = Gauge("sandhold_list_age_seconds", "Age of the last whole list of a kind.", ("kind",))
RELISTS = Counter(
    "sandhold_relists_total", "Lists by what they came to: same, differed or failed.", ("kind", "outcome")
)
MISSED = Counter("sandhold_relist_differences_total", "Differences that a list found and no watch had told.", ("kind",))

# Movers and keepers.
ORDERS = Counter(
    "sandhold_keeper_orders_total", "Orders to keepers by verb and what became of them.", ("verb", "outcome")
)
MOVERS = Gauge("sandhold_movers", "Movers that are known, connected, and have told of all their keepers.", ("state",))
KEEPERS = Gauge("sandhold_keepers", "Keepers that are connected to a mover, and that fell silent lately.", ("state",))

# The sweep.
SWEEP_OBJECTS = Counter(
    "sandhold_sweep_objects_total", "Objects that sweeps judged, by kind and what became of them.", ("kind", "outcome")
)
SWEEP_LAST_SUCCESS = Gauge(
    "sandhold_sweep_last_success_timestamp_seconds", "When the last sweep that ran to its end ended; 0 until one did."
)
SWEEP_BREAKER_OPEN = Gauge("sandhold_sweep_breaker_open", "1 while sweeps delete nothing because one found too much.")

# The process.
BUILD = Gauge("sandhold_build_info", "1, with the version that runs.", ("version",))
LEADER = Gauge("sandhold_leader", "1 while this process holds the election Lease.")
LOOP_LAG = Gauge("sandhold_event_loop_lag_seconds", "How late the event loop woke the last heartbeat.")
HEARTBEAT_AGE = Gauge(
    "sandhold_heartbeat_age_seconds", "Since when the loop of a kind that is silent for longest has been.", ("loop",)
)
BACKENDS_LOADED = Gauge(
    "sandhold_backends_loaded_timestamp_seconds", "When the backends file that is in force was taken into force."
)
BACKENDS_STALE = Gauge(
    "sandhold_backends_stale", "1 while the backends file cannot be used and an earlier one is in force."
)
