from settlement.core.model import errors
from settlement.core.model.errors import SettlementError

_STATUSES: dict[type[SettlementError], int] = {
    errors.InvalidRequest: 400,
    errors.CallerUnknown: 403,
    errors.SettlementNotFound: 404,
    errors.AccountNotFound: 404,
    errors.PayoutNotFound: 404,
    errors.AccountExists: 409,
    errors.CaseNotCounted: 409,
    errors.IdempotencyConflict: 409,
    errors.NotReversible: 409,
    errors.NotCancellable: 409,
    errors.SequenceChanged: 412,
    errors.PartRefused: 409,
    errors.ResolutionRefused: 409,
    errors.StepFenced: 409,
    errors.PayoutFenced: 409,
    errors.PayRunRefused: 409,
    errors.ApprovalNeeded: 409,
    errors.ProposalRefused: 409,
}

_UNAVAILABLE = (
    *(errors.StoreUnavailable, errors.StartUnavailable, errors.PageUnavailable),
    *(errors.JournalUnavailable, errors.RowDamaged),
)


def status_of(refusal: SettlementError) -> int:
    """Return a refusal's HTTP status. 422: an account's state or balance. 503: safe to repeat."""
    return 503 if isinstance(refusal, _UNAVAILABLE) else _STATUSES.get(type(refusal), 422)
