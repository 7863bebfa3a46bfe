"""Route that checks one claim: is it true, and according to whom?"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Body, Request
from pydantic import Field
from starlette.responses import Response

from newsproof.sdk.verification import DEADLINE_S, MAX_CLAIM
from newsproof.web.api.live import backend_of
from newsproof.web.api.research import refuse_hurry
from newsproof.web.responses import StrictBody, as_json

router = APIRouter(tags=["verification"])
MAX_DEADLINE_S = 120.0


class Claim(StrictBody):
    """A claim to check. `deadline_s`: time limit for the answer, in seconds. `max_cost_usd`: a case that costs more is cancelled."""

    claim: Annotated[str, Field(min_length=1, max_length=MAX_CLAIM, examples=["SEC approves spot ETH ETFs"])]
    deadline_s: Annotated[float, Field(gt=0, le=MAX_DEADLINE_S)] = DEADLINE_S
    max_cost_usd: Annotated[float | None, Field(ge=0)] = None
    language: Literal["zh", "en"] | None = None


@router.post("/api/verify")
@router.post("/api/v1/verify", include_in_schema=False)
async def verify(request: Request, claim: Annotated[Claim, Body()]) -> Response:
    """Check a claim. `verdict` and `confidence` mean the same as in a signal. `quotes` are untrusted text.

    The claim becomes a case but never a signal: bots do not see it, and it does not count as a report. At the deadline the
    answer has the state of the case (`reached`). Send the same claim again for the final answer; within an hour it comes
    from the log, at no cost (`from_log`).
    """
    backend = backend_of(request)
    refuse_hurry(request, backend)
    answer = await backend.verifier.verify(
        claim.claim,
        client="api",
        deadline_s=claim.deadline_s,
        max_cost_usd=claim.max_cost_usd,
        language=claim.language,
    )
    return as_json(answer)
