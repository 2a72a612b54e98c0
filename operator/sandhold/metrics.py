"""Every metric of the operator, declared once, labels bounded. Only what is touched is here.

Pure code never increments anything: the shell around it does (door, apply, reconcile, queue, pump).
"""

from prometheus_client import Counter, Gauge, Histogram

RECONCILE_SECONDS = Histogram(
    "sandhold_reconcile_seconds",
    "Duration of one pass over one object.",
    ("kind", "outcome"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
SEEN_TO_POST_SECONDS = Histogram(
    "sandhold_session_seen_to_pod_post_seconds",
    "From the first event of a new session that this process saw to the answer to its pod's POST.",
    buckets=(0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
)
API_REQUESTS = Counter("sandhold_api_requests_total", "Requests to the API server.", ("verb", "kind", "code"))
API_SECONDS = Histogram(
    "sandhold_api_request_seconds",
    "Duration of requests to the API server.",
    ("verb",),
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 15),
)
EVENTS = Counter("sandhold_events_total", "Kubernetes Events by what became of them.", ("outcome",))
ORDERS = Counter(
    "sandhold_keeper_orders_total", "Orders to keepers by verb and what became of them.", ("verb", "outcome")
)
WATCH_EVENTS = Counter("sandhold_watch_events_total", "Events that the watches delivered.", ("kind",))
MISSED = Counter("sandhold_relist_differences_total", "Differences that a list found and no watch had told.", ("kind",))
QUEUE_DEPTH = Gauge("sandhold_queue_depth", "Keys that wait for a worker.")
QUEUE_OLDEST = Gauge("sandhold_queue_oldest_seconds", "How long the key that waits longest has waited.")
LOOP_LAG = Gauge("sandhold_event_loop_lag_seconds", "How late the event loop woke the last heartbeat.")
LEADER = Gauge("sandhold_leader", "1 while this process holds the election Lease.")
SWEEP_OBJECTS = Counter(
    "sandhold_sweep_objects_total", "Objects that sweeps judged, by kind and what became of them.", ("kind", "outcome")
)
SWEEP_LAST_SUCCESS = Gauge(
    "sandhold_sweep_last_success_timestamp_seconds", "When the last sweep that ran to its end ended; 0 until one did."
)
SWEEP_BREAKER_OPEN = Gauge("sandhold_sweep_breaker_open", "1 while sweeps delete nothing because one found too much.")
