"""Small worlds of identities, logs and ledgers, so that rules and calls meet often."""

from __future__ import annotations

from hypothesis import strategies as st

from quire.rights.roles import Action, Role
from quire.rights.scopes import CLUSTER, Reach, Scope
from quire.rights.table import AccessRule, Effect, RightsTable, identity_named
from quire.wire.identity import ANONYMOUS

NAMES = ("quire://client/a", "quire://client/ab", "quire://bookie/b1", "a.example", "anonymous")
PATTERNS = (*NAMES, "*", "quire://client/*", "quire://*", "a.*")
LOGS = ("a", "ab", "b")
LEDGERS = (0, 1)

identities = st.sampled_from([identity_named(name) for name in NAMES[:-1]] + [ANONYMOUS])
actions = st.sampled_from(Action)
reaches = st.one_of(
    st.just(Reach()),
    st.sampled_from(LOGS).map(lambda log: Reach(log=log)),
    st.sampled_from(LOGS).map(lambda prefix: Reach(prefix=prefix)),
    st.sampled_from(LEDGERS).map(lambda ledger: Reach(ledger=ledger)),
)
rules = st.builds(
    AccessRule, st.sampled_from(PATTERNS), st.sampled_from(Role), reaches, st.sampled_from(Effect)
)
tables = st.lists(rules, max_size=8, unique=True).map(lambda found: RightsTable(tuple(found)))
known_scopes = st.one_of(
    st.just(CLUSTER),
    st.sampled_from(LOGS).map(lambda log: Scope(log=log)),
    st.builds(Scope, st.sampled_from((*LOGS, None)), st.sampled_from(LEDGERS)),
)
unknown_scopes = st.sampled_from(LEDGERS).map(lambda each: Scope(ledger=each, is_log_known=False))
scopes = known_scopes | unknown_scopes
