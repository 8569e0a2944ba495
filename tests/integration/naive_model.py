"""A token bucket as one would write it on paper, in fractions. It shares nothing with the server but the documents:
rules E2, E3 and E5 (integer microseconds, rounding, clocks that step back) and the fields of an answer."""
import math
from fractions import Fraction
from typing import NamedTuple, Optional


class Answer(NamedTuple):
    allowed: bool
    outcome: str
    remaining: int
    retry_after_us: Optional[int]  # None: never
    reset_after_us: int


class TokenBucket:
    """`count` tokens per `period_us`, at most `burst` at once. Valid where one microsecond is the bucket's tick."""

    def __init__(self, count, period_us, burst):
        self.rate = Fraction(count, period_us)
        self.burst = burst
        self.debt = Fraction(0)
        self.stamp = None  # the instant at which the debt is true

    def ask(self, now_us, cost):
        # A clock that stepped back means that no time has passed.
        at = now_us if self.stamp is None else max(now_us, self.stamp)
        debt = self.debt if self.stamp is None else max(Fraction(0), self.debt - self.rate * (at - self.stamp))
        allowed = debt + cost <= self.burst
        if allowed and cost > 0:  # a refusal and a peek write nothing
            debt += cost
            self.debt, self.stamp = debt, at
        retry = 0
        if cost > self.burst:
            outcome, retry = "never", None
        elif allowed:
            outcome = "allowed"
        else:
            outcome = "denied"
            retry = at - now_us + math.ceil((debt + cost - self.burst) / self.rate)
        reset = at - now_us + math.ceil(debt / self.rate) if debt > 0 else 0
        return Answer(allowed, outcome, max(0, math.floor(self.burst - debt)), retry, reset)


def up(value_us, unit_us):
    """Whole units, rounded up; None stays None."""
    return None if value_us is None else -(-value_us // unit_us)
