"""What an alert says to people and programs: a notice, and how it is written for each place (V3).

A notice holds texts that others wrote: names of schedules, errors, arguments. Whoever sends one
takes it from a renderer here, which has made them harmless for its place, and bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from duly.domain.harmless import (
    CUT_MARK,
    ITEMS_MAX,
    as_code,
    for_mattermost,
    for_page,
    for_slack,
    one_line,
    plain_json,
    whole_text,
)
from duly.domain.runbooks import RUNBOOK_KINDS, runbook_of
from duly.domain.schedules import canonical_json
from duly.domain.time_texts import distance_text, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

RAISED = "raised"
RESOLVED = "resolved"
PAGE = "page"
WARN = "warn"

SUBJECT_LINE_MAX = 200
"""A header of a mail: beyond it, lists of messages show no more."""
NAME_LENGTH_MAX = 200
SENTENCE_LENGTH_MAX = 1_000
EVIDENCE_LINES_MAX = 20
EVIDENCE_LINE_MAX = 300
EVIDENCE_LENGTH_MAX = 16 * 1024
"""Of the evidence in JSON, for programs."""
LOGGED_EVIDENCE_MAX = 2_000

_COLOURS = {PAGE: "#c62828", WARN: "#ef8f00"}
_RESOLVED_COLOUR = "#2e7d32"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNotice:
    """What one delivery says: that an alert was raised, or that it is over."""

    id: UUID
    """Of the delivery: the same in every try, so that a receiver can tell a repetition."""
    alert_id: UUID
    """The same when it is raised and when it is resolved."""
    kind: str
    """Such as missing-run."""
    change: str
    """raised or resolved."""
    severity: str
    """page: somebody must look now; warn: somebody should look today."""
    tenant: str
    subject: str
    """What it is about: schedule nightly-report, queue mail, store."""
    summary: str
    """One sentence for a person: what is so, since when."""
    remedy: str
    """What to do next, usually a command."""
    evidence: Mapping[str, Any]
    """What it was concluded from, as JSON."""
    since: datetime
    """When the condition began."""
    at: datetime
    """When it was raised, or resolved."""

    @property
    def is_resolved(self) -> bool:
        """Whether it says that the alert is over."""
        return self.change == RESOLVED

    @property
    def runbook(self) -> str | None:
        """The page to read about it; None for a kind that has none."""
        return runbook_of(self.kind) if self.kind in RUNBOOK_KINDS else None


def subject_line(notice: AlertNotice) -> str:
    """Say in one line what it is: for headers, titles and notifications of a telephone."""
    mark = RESOLVED if notice.is_resolved else notice.severity
    tenant = "" if notice.tenant in {"", "default"} else f" ({_name(notice.tenant)})"
    about = f"[Duly {_name(mark)}] {_name(notice.kind)}: {_name(notice.subject)}{tenant}"
    return one_line(about, SUBJECT_LINE_MAX)


def plain_text(notice: AlertNotice) -> str:
    """Write it for people as plain text: what is so, what to do, and from what it is concluded."""
    parts = [one_line(notice.summary, SENTENCE_LENGTH_MAX)]
    remedy = one_line(notice.remedy, SENTENCE_LENGTH_MAX)
    if remedy and not notice.is_resolved:
        parts.append(f"What to do next:\n  {remedy}")
    parts.append("\n".join(f"{name}: {said}" for name, said in _facts(notice)))
    evidence = [f"  {name}: {said}" for name, said in evidence_lines(notice)]
    if evidence:
        parts.append("\n".join(("Evidence:", *evidence)))
    return "\n\n".join(parts) + "\n"


def page_text(notice: AlertNotice) -> str:
    """Write the same as a page: no scripts, no images, nothing that is fetched from elsewhere."""
    summary = for_page(one_line(notice.summary, SENTENCE_LENGTH_MAX))
    remedy = for_page(one_line(notice.remedy, SENTENCE_LENGTH_MAX))
    next_step = f"<p>What to do next:</p>\n<pre>{remedy}</pre>\n" if remedy else ""
    rows = "".join(_row(name, said) for name, said in _facts(notice))
    evidence = "".join(_row(name, said) for name, said in evidence_lines(notice))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{for_page(subject_line(notice))}</title></head>\n<body>\n"
        f'<h1 style="font-size:1.2em;color:{_colour(notice)}">'
        f"{for_page(subject_line(notice))}</h1>\n<p>{summary}</p>\n"
        f"{'' if notice.is_resolved else next_step}"
        f"<table>\n{rows}</table>\n"
        f"{f'<h2>Evidence</h2>{chr(10)}<table>{chr(10)}{evidence}</table>' if evidence else ''}\n"
        "</body></html>\n"
    )


def slack_payload(notice: AlertNotice) -> dict[str, Any]:
    """Write it for an incoming hook of Slack; nothing in it is read as markup."""
    return {
        **_chat_payload(notice, for_slack, for_slack),
        "mrkdwn": False,
        "link_names": False,
        "parse": "none",
        "unfurl_links": False,
        "unfurl_media": False,
    }


def mattermost_payload(notice: AlertNotice) -> dict[str, Any]:
    """Write it for an incoming hook of Mattermost; what to do is a span of code, to be copied."""
    return _chat_payload(notice, for_mattermost, as_code)


def webhook_body(notice: AlertNotice) -> bytes:
    """Write it for programs: JSON, as Standard Webhooks shapes it. The same in every try."""
    message = {
        "type": f"alert.{_name(notice.change)}",
        "timestamp": utc_text(notice.at),
        "data": {
            "delivery": str(notice.id),
            "alert": str(notice.alert_id),
            "kind": _name(notice.kind),
            "severity": _name(notice.severity),
            "tenant": whole_text(notice.tenant, NAME_LENGTH_MAX),
            "subject": whole_text(notice.subject, NAME_LENGTH_MAX),
            "summary": whole_text(notice.summary, SENTENCE_LENGTH_MAX),
            "remedy": whole_text(notice.remedy, SENTENCE_LENGTH_MAX),
            "evidence": _bounded_evidence(notice.evidence),
            "since": utc_text(notice.since),
            "at": utc_text(notice.at),
            "runbook": notice.runbook,
        },
    }
    return canonical_json(message).encode()


def log_line(notice: AlertNotice) -> str:
    """Write it as one line of key=value, as all other events are written."""
    told = {
        "kind": _name(notice.kind),
        "change": _name(notice.change),
        "severity": _name(notice.severity),
        "tenant": _name(notice.tenant),
        "subject": _name(notice.subject),
        "summary": one_line(notice.summary, SENTENCE_LENGTH_MAX),
        "remedy": one_line(notice.remedy, SENTENCE_LENGTH_MAX),
        "since": utc_text(notice.since),
        "alert": str(notice.alert_id),
        "delivery": str(notice.id),
        "evidence": canonical_json(_bounded_evidence(notice.evidence, LOGGED_EVIDENCE_MAX)),
    }
    parts = (f"{name}={_quoted(said)}" for name, said in told.items())
    return " ".join((f"alert.{_name(notice.change)}", *parts))


def evidence_lines(notice: AlertNotice) -> Iterator[tuple[str, str]]:
    """Return the evidence in pairs of lines, as many as a person reads."""
    for name, value in islice(notice.evidence.items(), EVIDENCE_LINES_MAX):
        said = value if isinstance(value, str) else canonical_json(plain_json(value))
        yield one_line(str(name), NAME_LENGTH_MAX), one_line(said, EVIDENCE_LINE_MAX)
    left = len(notice.evidence) - EVIDENCE_LINES_MAX
    if left > 0:
        yield CUT_MARK, f"{left:,} more"


def _chat_payload(
    notice: AlertNotice, written: Callable[[str], str], to_copy: Callable[[str], str]
) -> dict[str, Any]:
    title = subject_line(notice)
    lines = [written(one_line(notice.summary, SENTENCE_LENGTH_MAX))]
    remedy = one_line(notice.remedy, SENTENCE_LENGTH_MAX)
    if remedy and not notice.is_resolved:
        lines.append(f"Next: {to_copy(remedy)}")
    said = [f"{name}: {said}" for name, said in _facts(notice) if name in {"Since", "Runbook"}]
    lines.append(written(" · ".join(said)))
    return {
        "text": written(title),
        "attachments": [
            {
                "fallback": written(title),
                "color": _colour(notice),
                "text": "\n\n".join(lines),
                # Slack reads markup in what is named here.
                "mrkdwn_in": [],
            }
        ],
    }


def _facts(notice: AlertNotice) -> Iterator[tuple[str, str]]:
    yield "Alert", f"{_name(notice.kind)} ({_name(notice.severity)}), {_name(notice.change)}"
    yield "About", _name(notice.subject)
    yield "Tenant", _name(notice.tenant) or "all"
    lasted = max(notice.at, notice.since)
    yield "Since", f"{utc_text(notice.since)} ({distance_text(notice.since, lasted)})"
    yield ("Resolved" if notice.is_resolved else "Raised"), utc_text(notice.at)
    if notice.runbook:
        yield "Runbook", notice.runbook
    yield "Alert id", str(notice.alert_id)
    yield "Delivery id", str(notice.id)


def _bounded_evidence(
    evidence: Mapping[str, Any], room: int = EVIDENCE_LENGTH_MAX
) -> dict[str, Any]:
    """Return what fits of the evidence; of the rest, the names."""
    told: dict[str, Any] = {}
    for name, value in islice(evidence.items(), ITEMS_MAX):
        key, plain = one_line(str(name), NAME_LENGTH_MAX), plain_json(value)
        size = len(canonical_json(plain))
        told[key] = plain if size <= room else CUT_MARK
        room -= min(size, room)
    return told


def _name(text: str) -> str:
    return one_line(text, NAME_LENGTH_MAX)


def _quoted(text: str) -> str:
    line = one_line(text, EVIDENCE_LENGTH_MAX)  # all but the evidence are shorter
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if not line or any(mark in line for mark in ' "=') else line


def _row(name: str, said: str) -> str:
    return f'<tr><th align="left">{for_page(name)}</th><td>{for_page(said)}</td></tr>\n'


def _colour(notice: AlertNotice) -> str:
    if notice.is_resolved:
        return _RESOLVED_COLOUR
    return _COLOURS.get(notice.severity, _COLOURS[WARN])
