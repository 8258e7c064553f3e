"""What a receiver's answer to a webhook means for the attempt, as Standard Webhooks has it.

2xx is success, whatever its body; 202 too, noted as such. 410 says that the receiver wants no more
of it: the run fails for good. Everything else is a failure that is tried again by the task's own
backoff, 3xx and 4xx included, for a wrong answer is often a receiver's mistake that is put right
before the attempts are used up; with Retry-After, when the receiver asked for it. Of these only 5xx
and 429 say that the receiver is in trouble, and count against it in its breaker (B2). Who answers
with 4xx, but for 408 and 409, has refused it: nothing has been done, and an unsafe webhook may be
tried again; of everything else that is no success nobody knows (E2).
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Protocol

from duly.domain.attempts import Reason
from duly.domain.concluding import End, Failed, GaveUp, Succeeded
from duly.domain.durations import duration_text
from duly.domain.instants import DAY, SECOND_US
from duly.domain.schedules import canonical_json
from duly.errors import printable

AFTER_MIN_US = SECOND_US
"""A receiver that says "at once" is not called in a circle."""
AFTER_MAX_US = DAY * SECOND_US
EXCERPT_LENGTH_MAX = 1_000
LOCATION_LENGTH_MAX = 200
_RETRY_AFTER_LENGTH_MAX = 100
_MAYBE_DONE = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT)
"""Of the answers that refuse a request, those that may be given to one that is under way."""


class Hiding(Protocol):
    """Whoever knows what must not be seen: a run's live side, or a concealer."""

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """What came back."""

    status: int
    origin: str
    """Who answered, without path and query."""
    retry_after: str | None = None
    location: str | None = None
    encoding: str | None = None
    body: bytes = b""
    is_cut: bool = False
    """Whether there was more of it than was read."""


def judge_answer(answer: WebhookAnswer, now: datetime, live: Hiding) -> End:
    """Return how an attempt ended, by its answer; `live` leaves secrets out of what it says."""
    excerpt = _excerpt(answer, live)
    if 200 <= answer.status <= 299:
        return Succeeded(_result(answer, excerpt))
    said = f"{answer.origin} answered {_status_text(answer.status)}"
    if answer.status == HTTPStatus.GONE:
        return GaveUp(Reason.GONE, _sentence(f"{said}: it wants no more of these", excerpt))
    if 300 <= answer.status <= 399 and answer.location:
        to = printable(live.hide(answer.location)[:LOCATION_LENGTH_MAX])
        said += f" and points to {to}; redirects are not followed, give the address it points to"
    after_us = None if answer.retry_after is None else read_retry_after(answer.retry_after, now)
    reason = Reason.HTTP_STATUS
    if after_us is not None:
        reason = Reason.RETRY_AFTER
        said += f" and asked to wait {duration_text(after_us)}"
    # One that is overloaded or broken is to be left alone; one that says no is there.
    is_broken = answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS
    text = _sentence(said, excerpt)
    is_refused = 400 <= answer.status <= 499 and answer.status not in _MAYBE_DONE
    return Failed(text, reason, after_us=after_us, is_answered=not is_broken, is_undone=is_refused)


def read_retry_after(text: str, now: datetime) -> int | None:
    """Return how long a receiver asks to wait, from a second to a day; None if it says nothing."""
    text = text.strip()
    if not text or len(text) > _RETRY_AFTER_LENGTH_MAX:
        return None
    if text.isascii() and text.isdigit():
        wait_us = min(int(text), DAY) * SECOND_US
    else:
        try:
            until = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        wait_us = (until - now) // timedelta(microseconds=1)
    return max(AFTER_MIN_US, min(wait_us, AFTER_MAX_US))


def _result(answer: WebhookAnswer, excerpt: str) -> str:
    result: dict[str, object] = {"status": answer.status}
    if answer.status == HTTPStatus.ACCEPTED:
        result["note"] = "accepted: the receiver goes on by itself"
    if excerpt:
        result["answer"] = excerpt
    return canonical_json(result)


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _sentence(said: str, excerpt: str) -> str:
    return f"{said}: {excerpt}" if excerpt else said


def _excerpt(answer: WebhookAnswer, live: Hiding) -> str:
    """Return the beginning of a body, fit for records and terminals."""
    if not answer.body:
        return ""
    more = "at least " if answer.is_cut else ""
    if answer.encoding and answer.encoding.strip().lower() != "identity":
        # It was asked for without; a kilobyte of it may stand for a gigabyte.
        return f"({more}{len(answer.body):,} bytes, compressed, not unpacked)"
    # Secrets go first: cut in the middle, one would no longer be recognised.
    decoded = codecs.getincrementaldecoder("utf-8")("replace").decode(
        answer.body, final=not answer.is_cut
    )
    text = live.hide(decoded, is_cut=answer.is_cut)
    text = "".join(one if one.isprintable() else " " for one in text).strip()
    return text if len(text) <= EXCERPT_LENGTH_MAX else f"{text[:EXCERPT_LENGTH_MAX]}…"
