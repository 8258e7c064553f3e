"""Proofs over HTTP: whether a day's occurrences did all they were to, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import look, reference_of
from duly.interface.proofs import Proof, ProofQuery

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def get_proof(received: ApiRequest) -> Proof:
    """Say of each occurrence on a day whether all that it was to do is done, once."""
    asked: ProofQuery = received.query
    return Proof.from_view(received.app.prove(reference_of(asked.schedule), asked.day))


ROUTES: tuple[Route, ...] = (look("/proofs", get_proof, Proof, ProofQuery),)
