"""`docs/reference/metrics.md`: every metric of the operator, from the declarations in `metrics.py`."""

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from generate.tables import page, table
from sandhold import metrics

_INTRODUCTION = (
    "The operator serves them on port 8080 under `/metrics`, in the form of Prometheus. Only the active one of several "
    "makes passes; a standby's are about its own caches and loops. No label holds the name of an object, a user or a "
    "pod, so the number of series is bounded by kinds, codes and the tiers of the backends file. Histograms have "
    "`_bucket`, `_sum` and `_count`. Beside these there are those of process and of Python (`process_`, `python_`). "
    "What they are good for is in [observe](../how-to/observe.md)."
)


class UndescribedMetricError(Exception):
    """A metric without a sentence, or a label that nobody described."""


def declared() -> Iterator[MetricWrapperBase]:
    """The metrics in the order of their declaration."""
    for value in vars(metrics).values():
        if isinstance(value, MetricWrapperBase):
            yield value


def full_name(metric: MetricWrapperBase) -> str:
    """As it is scraped: the library takes the ending of a counter off and puts it on again."""
    return f"{metric._name}_total" if metric._type == "counter" else metric._name  # noqa: SLF001 - not public there


def metrics_page() -> str:
    """The whole page."""
    rows, used = [], set()
    for metric in declared():
        labels = metric._labelnames  # noqa: SLF001
        used |= set(labels)
        text = metric._documentation  # noqa: SLF001
        missing = [label for label in labels if label not in metrics.LABELS]
        if missing or not text:
            raise UndescribedMetricError(f"{full_name(metric)}: needs a sentence, and LABELS these labels: {missing}")
        rows.append((f"`{full_name(metric)}`", str(metric._type), ", ".join(f"`{each}`" for each in labels), text))  # noqa: SLF001
    if surplus := metrics.LABELS.keys() - used:
        raise UndescribedMetricError(f"LABELS describes what no metric has: {sorted(surplus)}")
    parts = [
        _INTRODUCTION,
        table(("metric", "type", "labels", "what it is"), rows),
        "## Labels",
        table(("label", "holds"), [(f"`{name}`", text) for name, text in metrics.LABELS.items()]),
    ]
    return page("Metrics", "hack/generate/reference from operator/sandhold/metrics.py", parts)
