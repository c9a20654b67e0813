"""What a write may demand of the row that it meets: every fragment has a name and a sentence."""

ABSENT = "attribute_not_exists(pk)"
"""No such row yet: this write is the first."""

IN_PROCESS = "#status = :processing"
"""The fence: nobody has finished, rejected or begun to reverse the settlement."""

COMPENSATES = "#status = :compensating"
"""The settlement is being reversed: its forward steps are fenced off for good."""

OWNED = "#owner = :owner"
"""The settlement is still driven by the execution that asks for its reversal."""

AS_SEEN = "#status = :seen"
"""The settlement still is what the person saw who gave the order."""

IN_LIMBO = "#status = :limbo"
"""A reversal got stuck, and a person has yet to decide."""

NEVER_RESOLVED = "attribute_not_exists(resolution)"
"""No person has decided on the settlement; a settled one was not completed out of LIMBO."""

SAME_ROUND = "resolutions = :resolutions"
"""As many decisions as the caller knows of: whoever comes from before the last one is too late."""

SAME_REQUEST = "request_hash = :request_hash"
"""The step was called with the very content that the key was claimed with."""

NO_VERDICT = "attribute_not_exists(verdict)"
"""The KYC provider has not decided."""

NOT_IN_REVIEW = "attribute_not_exists(review)"
"""Nobody reviews the payment yet."""

THIS_REVIEW = "(attribute_not_exists(review) OR review = :review)"
"""The decision is on the very verification that the settlement waits for; it may come before the wait."""

NOT_GIVEN_UP = "attribute_not_exists(given_up_at)"
"""Recovery has not found the deadline over: whoever's clock is behind must not commit what it gives back."""

AS_LISTED = "gsi1sk = :listed"
"""The index still lists the settlement as it did when it was found there."""

LISTED_IN_FLIGHT = "begins_with(gsi1pk, :in_flight)"
"""The index lists the settlement among those in flight, and not in LIMBO."""

NOT_YET_TAKEN_ON = "recoveries = :recoveries"
"""Nobody has become the settlement's owner since it was looked at."""

OVERDUE = "deadline_at <= :now"
"""The time to commit is over."""

NOTHING_COMMITTED = "attribute_not_exists(steps)"
"""No step has committed: nothing is held."""

PREVIOUS_COMMITTED = "contains(steps, :previous)"
"""The step before this one has committed."""

NOT_YET_COMMITTED = "NOT contains(steps, :this)"
"""This step has not."""

COMMITTED = "contains(steps, :this)"
"""This step has committed: there is something to reverse."""

NOT_YET_REVERSED = "NOT contains(reversed, :this)"
"""This step has not been reversed, nor covered by a write-off."""

HOLDS_EXACTLY = "escrow = :held"
"""The escrow has exactly this amount, so that what follows empties it."""

BEFORE_DEADLINE = ":now < deadline_at"
"""There is time left to commit; asked of every step up to the release, after which there is no way but on."""

SAME_CURRENCY = "currency = :currency"
"""The account is kept in the settlement's currency; false where there is no such account."""

EXISTS = "attribute_exists(pk)"
"""There is such a row: an update does not make one."""

SUFFICIENT = "available >= :amount"
"""The account can bear the debit: no balance ever goes below zero."""

NOT_IN_LIMBO = "attribute_not_exists(limbo_keys)"
"""No earlier settlement of this account waits for a person's decision."""

BELOW_CAP = "available <= :highest_before"
"""The credit does not lift the balance over the stage's cap (conditions do no arithmetic)."""
