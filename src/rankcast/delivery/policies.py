"""The delivery policies as step functions, straight from their definitions.

- all: every candidate that has not expired.
- continuous(k): on arrival, unless k valid delivered events have a higher rank. What was delivered is kept as far as it
  can still matter: an event that k others outrank and outlive never decides anything again (the k-skyband on rank and
  expiry). Keeping just the k best would be wrong once events expire.
- sliding(k, w): the w most recent matching events; at each match the expired ones leave first, then the new one enters,
  then whatever is in the best k and was not delivered before is.

Paper: PrefSIENA, its timing policies, with the corrections of docs/semantics.md. Cost per step: O(n^2) in the delivered
events kept by continuous, O(w log w) for sliding; these are the definitions that faster forms are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from rankcast.delivery.candidates import Candidate, best
from rankcast.model.errors import PolicyNotAvailableError
from rankcast.model.policies import AllMatches, Continuous, Policy, Sliding


@dataclass(frozen=True, slots=True)
class DeliveredSoFar:
    """State of continuous delivery: the delivered events that can still hold back another one."""

    kept: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """State of sliding delivery: the most recent matching events, oldest first, and which of them were delivered."""

    recent: tuple[Candidate, ...] = ()
    delivered: frozenset[Candidate] = frozenset()


State: TypeAlias = DeliveredSoFar | Window | None


def initial_state(policy: Policy) -> State:
    """Return the state of a queue that has seen nothing; raise PolicyNotAvailableError for a policy without steps."""
    if isinstance(policy, AllMatches):
        return None
    if isinstance(policy, Continuous):
        return DeliveredSoFar()
    if isinstance(policy, Sliding):
        return Window()
    raise PolicyNotAvailableError(
        f"{type(policy).__name__} delivery is not available yet; use AllMatches, Continuous or Sliding"
    )


def step(policy: Policy, state: State, candidate: Candidate, now: datetime) -> tuple[State, list[Candidate]]:
    """Let one matching event arrive at `now`; return the next state and what is delivered, best first."""
    if isinstance(policy, Continuous) and isinstance(state, DeliveredSoFar):
        return _continuous(policy, state, candidate, now)
    if isinstance(policy, Sliding) and isinstance(state, Window):
        return _sliding(policy, state, candidate, now)
    return state, [candidate] if candidate.is_valid_at(now) else []


def changed(policy: Policy, state: State, before: Policy) -> State:
    """Return the state after a change of policy: what is still held when the kind of policy stays, else empty."""
    if type(policy) is not type(before):
        return initial_state(policy)
    if isinstance(policy, Sliding) and isinstance(state, Window):
        recent = state.recent[-policy.window :]
        return Window(recent, state.delivered & frozenset(recent))
    return state


def _continuous(
    policy: Continuous, state: DeliveredSoFar, candidate: Candidate, now: datetime
) -> tuple[State, list[Candidate]]:
    valid = tuple(kept for kept in state.kept if kept.is_valid_at(now))
    higher = sum(kept.score > candidate.score for kept in valid)
    if not candidate.is_valid_at(now) or higher >= policy.k:
        return DeliveredSoFar(valid), []
    return DeliveredSoFar(_skyband((*valid, candidate), policy.k)), [candidate]


def _skyband(delivered: tuple[Candidate, ...], k: int) -> tuple[Candidate, ...]:
    """Drop every event that k others outrank and outlive; of equals, the later one counts as better."""
    return tuple(
        candidate
        for at, candidate in enumerate(delivered)
        if sum(
            other.score >= candidate.score
            and other.outlives(candidate)
            and ((other.score, other.expires) != (candidate.score, candidate.expires) or index > at)
            for index, other in enumerate(delivered)
            if index != at
        )
        < k
    )


def _sliding(policy: Sliding, state: Window, candidate: Candidate, now: datetime) -> tuple[State, list[Candidate]]:
    valid = [held for held in state.recent if held.is_valid_at(now)]
    if candidate.is_valid_at(now):
        valid.append(candidate)
    recent = tuple(valid[-policy.window :])
    chosen = [held for held in best(list(recent), policy.k) if held not in state.delivered]
    delivered = (state.delivered | frozenset(chosen)) & frozenset(recent)
    return replace(state, recent=recent, delivered=delivered), chosen
