"""The headers and keys of a webhook, with the secrets in them read just before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.secrets import Secret, SecretReference
from duly.domain.webhooks import check_header, signing_key
from duly.errors import NoSecret, UsageError

if TYPE_CHECKING:
    from duly.domain.secrets import ReadSecret
    from duly.domain.webhooks import WebhookPlan


def revealed(
    plan: WebhookPlan, field: str, read: ReadSecret
) -> tuple[dict[str, str], tuple[bytes, ...]]:
    """Return the headers that a plan gives, and the keys to sign with; NoSecret, UsageError."""
    headers: dict[str, str] = {}
    for name, value in plan.headers:
        if isinstance(value, SecretReference):
            secret = read(value, f"{field} header {name}")
            headers[name] = _as_header(secret, value, f"{field} header {name}")
        else:
            headers[name] = value
    keys = tuple(
        signing_key(read(one, f"{field} secret"), one, f"{field} secret") for one in plan.secrets
    )
    return headers, keys


def _as_header(secret: Secret, reference: SecretReference, field: str) -> str:
    """Return a secret as the value of a header, if it can be one: it is the worker's, not ours."""
    try:
        check_header(field, secret.reveal(), shown=reference.secret)
    except UsageError as error:
        raise NoSecret(field, reference.secret, error.problem, error.remedy) from None
    return secret.reveal()
