"""Orders under an Idempotency-Key: carried out once, and answered alike however often they come.

The key is announced in the store before anything is done, and the answer kept afterwards. If the
process dies in between, whoever gives the order again after a minute carries it out anew, under the
same ids, so that what was made already is found and not made twice. An order that makes
nothing with an id and does more each time, such as to skip the next occurrence, is not carried out
anew: nobody knows whether it was, and whoever gives it can look.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from duly.api.ordering import IdempotentOrder
from duly.api.requests import MEDIA_TYPE, api_error, problem_of
from duly.domain.auth import order_nonce
from duly.errors import DulyError, StoreError, UsageError
from duly.store.ports.auth import (
    ANSWER_BYTES_MAX,
    IDEMPOTENCY_KEY_LENGTH_MAX,
    BeginRequest,
    FinishAnswer,
    IdempotencyKey,
    IdempotencyStatus,
    KeepsTenants,
    StoredResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.api.requests import ApiError
    from duly.domain.auth import Principal
    from duly.store.ports import Store

KEY_HEADER = "idempotency-key"
KEY_PATTERN = "^[!-~]+$"
REPLAYED_HEADER = "Idempotency-Replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRequest:
    """An order under a key."""

    tenant: str
    principal: Principal
    key: str
    request_hash: bytes
    is_once_only: bool = False
    """Whether it does more each time that it is carried out."""


def read_key(text: str) -> str:
    """Read an Idempotency-Key."""
    if len(text) > IDEMPOTENCY_KEY_LENGTH_MAX or not re.fullmatch(KEY_PATTERN, text):
        remedy = f"give 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable ASCII characters, no spaces"
        raise UsageError("Idempotency-Key", text, "is not a key", remedy)
    return text


def request_hash(*parts: bytes) -> bytes:
    """Hash what makes an order this order; parts are framed, so that none passes for two."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return sha256(framed).digest()


def carry_out(
    store: Store, order: KeyedRequest, do: Callable[[IdempotentOrder], StoredResponse]
) -> StoredResponse:
    """Carry an order out, or give the answer that it was given before."""
    key = IdempotencyKey(tenant=order.tenant, principal=order.principal.id, key=order.key)
    store = store.within(order.tenant) if isinstance(store, KeepsTenants) else store
    announced = store.begin_answer(BeginRequest(key=key, request_hash=order.request_hash))
    match announced.standing:
        case IdempotencyStatus.RUNNING:
            problem = "an order under this Idempotency-Key is being carried out"
            remedy = "ask again in a moment, under the same key"
            raise api_error(409, "still-running", problem, remedy, Retry_After="1")
        case IdempotencyStatus.DIFFERENT:
            problem = "another order was given under this Idempotency-Key"
            raise api_error(422, "key-reused", problem, "give each order a key of its own")
        case IdempotencyStatus.ANSWERED:
            kept = announced.answer
            assert kept is not None, "an order that was answered has an answer"
            headers = {**kept.headers, REPLAYED_HEADER: "true"}
            return StoredResponse(status=kept.status, headers=headers, body=kept.body)
        case IdempotencyStatus.BEGUN if announced.is_taken_over and order.is_once_only:
            store.finish_answer(FinishAnswer(key=key, fence=announced.fence, answer=_unknown()))
            return _unknown()
        case IdempotencyStatus.BEGUN:
            pass
    nonce = order_nonce(order.tenant, order.principal.id, order.key)
    try:
        answer = do(IdempotentOrder(nonce, announced.begun_at))
    except StoreError:
        # It may have been carried out, and the word of it lost: it stays announced.
        raise
    except DulyError:
        store.forget_answer(key, announced.fence)  # a refusal has done nothing
        raise
    kept = answer if len(answer.body) <= ANSWER_BYTES_MAX else _too_long()
    store.finish_answer(FinishAnswer(key=key, fence=announced.fence, answer=kept))
    return answer


def _unknown() -> StoredResponse:
    """Answer an order that may have been carried out by a server that is gone."""
    problem = "the server that was given this order is gone, and nobody knows whether it did it"
    remedy = "look at what it is about; if it was not done, give the order again under a new key"
    return _refused(api_error(409, "outcome-unknown", problem, remedy))


def _too_long() -> StoredResponse:
    """Answer an order that was carried out, and whose answer no store should keep for a day."""
    problem = "this order was carried out, and its answer was too long to be kept"
    return _refused(api_error(409, "answer-gone", problem, "look at what it is about"))


def _refused(refused: ApiError) -> StoredResponse:
    told = problem_of(refused)
    return StoredResponse(
        status=told.status, headers={"Content-Type": MEDIA_TYPE}, body=msgspec.json.encode(told)
    )
