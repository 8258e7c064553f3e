"""What an alert notice says in each format; escaping of foreign text; runbook links.

A notice holds texts of foreign origin: names of schedules, errors, arguments. Each renderer here
makes them harmless for its format and bounds their length. A sender takes its text from one of
these renderers only.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from duly.domain.alert_rules import AlertKind
from duly.domain.schedules import canonical_json
from duly.errors import UsageError
from duly.timetable.instants import distance_text, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID


CUT_MARK = "…"
DEPTH_MAX = 8
ITEMS_MAX = 100
"""How many members of a map or a list are shown; the rest is counted."""
JSON_TEXT_MAX = 2_000
NUMBER_MAX: Final = 2**63
"""Beyond it readers of JSON disagree, and a number of a million digits can't be written at all."""
_ZERO_WIDTH_SPACE = "\u200b"
_MENTION = re.compile(r"[@~#](?=[^\W\d])")
"""What chats read as the name of a person, a channel or a tag; `report@2026-04-03` is none."""
_LINK = re.compile(r":(?=//)|(?<=www)\.|(?<=mailto):", re.IGNORECASE)
_MARKDOWN = re.compile(r"[\\`*_\[\]()#!|~]")
_CODE_MARK = "`"
_ENCODED_WORD = "=?"
"""With this a header says that what follows is to be decoded."""


def one_line(text: str, length_max: int) -> str:
    r"""Return a text as one line: blanks for breaks, and what can't be seen spelled out.

    Characters that turn the direction of writing, take no room or control a terminal become
    `\u202e` and the like, so that nothing in it is other than it looks.
    """
    # Cut before looking: of a megabyte only what may be shown is worth the work.
    begun = text[: length_max + 1]
    line = " ".join("".join(map(_seen, begun)).split())
    return _cut(line, length_max, is_cut=len(begun) < len(text))


def for_header(line: str) -> str:
    """Return a line for a mail's header, in which nothing is an encoded word.

    `=?utf-8?q?a=0d=0aBcc:…?=` is printable ASCII, and decoded it is another header; Python's own
    messages decode it when it is put in, and older ones write down what comes out.
    """
    return line.replace(_ENCODED_WORD, " ".join(_ENCODED_WORD))


def for_page(text: str) -> str:
    """Return a line as HTML writes it, within an element or a quoted attribute."""
    return html.escape(text, quote=True)


def for_slack(text: str) -> str:
    """Return a line for Slack, where < > & are the only marks: <!here> is four characters."""
    return quieted(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def for_mattermost(text: str) -> str:
    """Return a line for Mattermost, with everything escaped that Markdown would read.

    It takes Slack's <!channel> as well, and knows no escape for its first mark.
    """
    escaped = _MARKDOWN.sub(lambda found: f"\\{found[0]}", text)
    return quieted(escaped).replace("<", f"<{_ZERO_WIDTH_SPACE}")


def as_code(text: str) -> str:
    """Return a line as a span of code in Markdown, in which nothing is read and nobody is called.

    A span has no escapes, and so no room for the mark that ends it.
    """
    return f"{_CODE_MARK}{text.replace(_CODE_MARK, chr(39))}{_CODE_MARK}"


def quieted(text: str) -> str:
    """Return a line that calls nobody and links nowhere: its marks stand apart from its words."""
    for marks in (_MENTION, _LINK):
        text = marks.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, text)
    return text


def plain_json(value: Any, depth: int = DEPTH_MAX) -> Any:  # noqa: ANN401, PLR0911 - JSON's kinds
    """Return a value that every reader of JSON can take: bounded, whole characters, real numbers.

    What it holds is told and not shown: texts keep their line breaks and whatever else JSON can
    write. What is left out is said so.
    """
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) < NUMBER_MAX else "a number too large to be shown"
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return whole_text(value, JSON_TEXT_MAX)
        case Mapping() | list() | tuple() if depth == 0:
            return CUT_MARK
        case Mapping():
            shown = islice(value.items(), ITEMS_MAX)
            told = {
                whole_text(str(key), JSON_TEXT_MAX): plain_json(one, depth - 1)
                for key, one in shown
            }
            left = len(value) - ITEMS_MAX
            return told if left <= 0 else {**told, CUT_MARK: f"{left:,} more"}
        case list() | tuple():
            listed = [plain_json(one, depth - 1) for one in value[:ITEMS_MAX]]
            left = len(value) - ITEMS_MAX
            return listed if left <= 0 else [*listed, f"{CUT_MARK} {left:,} more"]
        case _:
            return f"a value of type {type(value).__name__}"


def whole_text(text: str, length_max: int) -> str:
    """Return a text without halves of characters, cut at its end where it is too long."""
    whole = text[: length_max + 1].encode("utf-8", "replace").decode()
    return _cut(whole, length_max, is_cut=len(text) > length_max)


def _seen(one: str) -> str:
    if one.isprintable():
        return one
    return " " if one.isspace() else ascii(one)[1:-1]


def _cut(text: str, length_max: int, *, is_cut: bool) -> str:
    if len(text) <= length_max and not is_cut:
        return text
    return text[: length_max - 1].rstrip() + CUT_MARK


FOLDER = "docs/runbooks"
RUNBOOK_KINDS = tuple(str(kind) for kind in AlertKind)
"""The kinds of alert, each of which has a page of its own."""


def runbook_of(kind: str) -> str:
    """Return the path of the page about a kind of alert, from the root of the repository."""
    if kind not in RUNBOOK_KINDS:
        raise UsageError("kind", kind, "has no runbook", f"give one of {', '.join(RUNBOOK_KINDS)}")
    return f"{FOLDER}/{kind}.md"


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
