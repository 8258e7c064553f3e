"""Numbers as Prometheus reads them: what is measured, and the text that tells how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Metric:
    """One thing that is measured; docs/metrics.md lists all of them."""

    name: str
    """Stable, with its unit at the end: dashboards and alerts hold it."""
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


class MetricSamples:
    """What was measured at one moment, in the order of its metrics."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._lines: dict[Metric, list[str]] = {metric: [] for metric in metrics}

    def note(self, metric: Metric, value: float, *labels: str) -> None:
        """Note one number, with a value for each of its metric's labels."""
        self._write(metric, metric.name, value, zip(metric.labels, labels, strict=True))

    def note_spread(
        self, metric: Metric, counts: Sequence[tuple[float, int]], total: float
    ) -> None:
        """Note how numbers are spread: how many up to each bound and above the last, their sum."""
        seen = 0
        for bound, count in counts:
            seen += count
            self._write(metric, f"{metric.name}_bucket", seen, [("le", _number(bound))])
        self._write(metric, f"{metric.name}_sum", total, ())
        self._write(metric, f"{metric.name}_count", seen, ())

    def text(self) -> str:
        """Return all of it; of what there is none, what it would be."""
        lines: list[str] = []
        for metric, samples in self._lines.items():
            lines.append(f"# HELP {metric.name} {metric.meaning}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            lines += samples
        return "\n".join((*lines, ""))

    def _write(
        self, metric: Metric, name: str, value: float, labels: Iterable[tuple[str, str]]
    ) -> None:
        told = ",".join(f'{label}="{said.translate(_ESCAPES)}"' for label, said in labels)
        braced = f"{{{told}}}" if told else ""
        self._lines[metric].append(f"{name}{braced} {_number(value)}")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)
