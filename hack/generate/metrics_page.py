"""`docs/reference/metrics.md`: every metric of both programs, from the declarations in their `metrics.py`."""

from collections.abc import Iterable, Iterator
from types import ModuleType

from prometheus_client.metrics import MetricWrapperBase

from generate.tables import page, table
from sandhold import metrics
from sandhold.mover import metrics as mover_metrics

_INTRODUCTION = (
    "Operator and mover serve theirs on port 8080 under `/metrics`, in the form of Prometheus. Of several operators "
    "only the active one makes passes; a standby tells of its own caches and loops. No label holds the name of an "
    "object, a user or a pod: the number of series is bounded by kinds, codes and the tiers of the backends file. "
    "Histograms have `_bucket`, `_sum` and `_count`. Beside these there are those of process and of Python "
    "(`process_`, `python_`). What they are good for is in [observe](../how-to/observe.md)."
)
# What the mover's labels hold; those of the operator stand beside its metrics.
_MOVER_LABELS = {
    "code": "a refusal code of the reference",
    "direction": "`in` from keepers, `out` to keepers",
    "outcome": "`done`, `ended`, or a refusal code",
    "reason": "why a connection came to nothing, in one word",
    "state": "`unproven`, `review`, `proven`",
    "verb": "`archive`, `restore`",
}


class UndescribedMetricError(Exception):
    """A metric without a sentence, or a label that nobody described."""


def declared(module: ModuleType = metrics) -> Iterator[MetricWrapperBase]:
    """The metrics of a program in the order of their declaration."""
    for value in vars(module).values():
        if isinstance(value, MetricWrapperBase):
            yield value


def full_name(metric: MetricWrapperBase) -> str:
    """As it is scraped: the library takes the ending of a counter off and puts it on again."""
    return f"{metric._name}_total" if metric._type == "counter" else metric._name  # noqa: SLF001 - not public there


def metrics_page() -> str:
    """The whole page."""
    parts = [
        _INTRODUCTION,
        "## Operator",
        *_tables(declared(), metrics.LABELS),
        "## Mover",
        *_tables(declared(mover_metrics), _MOVER_LABELS),
    ]
    return page("Metrics", "hack/generate/reference from operator/sandhold/metrics.py and mover/metrics.py", parts)


def _tables(found: Iterable[MetricWrapperBase], described: dict[str, str]) -> tuple[str, str]:
    """The metrics, and their labels."""
    rows, used = [], set()
    for metric in found:
        labels = metric._labelnames  # noqa: SLF001 - not public there
        used |= set(labels)
        text = metric._documentation  # noqa: SLF001
        missing = [label for label in labels if label not in described]
        if missing or not text:
            raise UndescribedMetricError(f"{full_name(metric)}: needs a sentence, and these labels words: {missing}")
        rows.append((f"`{full_name(metric)}`", str(metric._type), ", ".join(f"`{each}`" for each in labels), text))  # noqa: SLF001
    if surplus := described.keys() - used:
        raise UndescribedMetricError(f"labels are described that no metric has: {sorted(surplus)}")
    return (
        table(("metric", "type", "labels", "what it is"), rows),
        table(("label", "holds"), [(f"`{name}`", text) for name, text in described.items()]),
    )
