"""Safeguards of a ledger: streams of runs, recovery, writing."""

from __future__ import annotations

from typing import Final

from tests.sim.ablations import (
    following,
    mixes,
    recovery,
    streams,
    writing,
)
from tests.sim.ablations.patch import WITHOUT_END, Ablation

LEDGER: Final = (
    Ablation(
        "a stream acknowledges only runs that are done",
        "ledger",
        streams.acknowledge_what_is_under_way,
    ),
    Ablation("a run that was refused is not acked", "ledger", streams.take_refusals_for_acks),
    Ablation("a stream that breaks acks nothing", "ledger", streams.take_a_break_for_an_ack),
    Ablation(
        "a stream that breaks fails the calls that wait",
        "ledger",
        streams.forget_what_waits,
        shows=WITHOUT_END,
    ),
    Ablation("recovery reads fence", "ledger", recovery.read_without_fence, "", mixes.silence),
    Ablation("absence needs Qw − Qa + 1 negatives", "ledger", recovery.believe_one_negative),
    Ablation("an error is not a negative", "ledger", recovery.take_errors_for_absence),
    Ablation(
        "a denial reaches as far as it says",
        "ledger",
        recovery.stretch_denials,
        "",
        mixes.stepwise,
    ),
    Ablation(
        "recovery starts in the last fragment", "ledger", recovery.start_below_the_last_fragment
    ),
    Ablation(
        "the fencing read covers every write set",
        "ledger",
        recovery.fence_one_bookie,
        "redundant: every recovery read fences too, and no entry is decided before "
        "Qw − Qa + 1 of its write set have answered one",
        mixes.race,
    ),
    Ablation(
        "LAC is frozen in recovery", "ledger", recovery.let_lac_grow_in_recovery, "", mixes.race
    ),
    Ablation("recovered entries reach Qa", "ledger", recovery.write_back_to_one),
    Ablation(
        "a recovery closes by compare-and-set",
        "ledger",
        recovery.close_over_anybody,
        "",
        mixes.race,
    ),
    Ablation("full quorum closes on all copies", "ledger", recovery.close_with_an_ack_quorum),
    Ablation(
        "a replaced bookie's acks do not count", "ledger", writing.keep_watermarks_of_the_replaced
    ),
    Ablation("nothing is sent before metadata names it", "ledger", writing.send_before_metadata),
    Ablation(
        "LAC stands still during a change", "ledger", writing.ack_during_a_change, "", mixes.churn
    ),
    Ablation(
        "the writer stops when in recovery", "ledger", writing.write_on_in_recovery, "", mixes.churn
    ),
    Ablation("an ack needs Qa copies", "ledger", writing.ack_with_one_less),
    Ablation("an ack counts domains", "ledger", writing.ack_without_domains, "", mixes.zoned),
    Ablation(
        "the domain of a new bookie comes with the change",
        "ledger",
        writing.keep_the_domains_of_the_replaced,
        "",
        mixes.zoned,
    ),
    Ablation(
        "new labels change no running window",
        "ledger",
        writing.believe_new_labels,
        "",
        mixes.relabelled,
    ),
    Ablation(
        "a replacement spreads as required",
        "ledger",
        writing.replace_anywhere,
        "",
        mixes.zoned,
        shows=WITHOUT_END,  # acks count domains, so what spreads too little is never acknowledged
    ),
    Ablation(
        "recovered entries reach enough domains",
        "ledger",
        recovery.write_back_without_domains,
        "rare: the bookies mostly hold the entries already; tests/ledger/test_domains.py has it",
        mixes.zoned,
    ),
    Ablation(
        "a force counts what bookies name", "ledger", writing.believe_a_force, "", mixes.forced
    ),
    Ablation(
        "a ledger is as long as its confirmed entries",
        "ledger",
        writing.close_at_the_length_pushed,
        "",
        mixes.starved,
    ),
    Ablation("followers wait for CLOSED", "ledger", writing.take_recovery_for_the_end),
    Ablation("only a proven LAC confirms", "ledger", writing.take_the_highest_entry_for_lac),
    Ablation(
        "a follower that fell behind reads by itself", "ledger", following.take_what_is_recent
    ),
    Ablation(
        "a follower takes the tail along to what is confirmed",
        "ledger",
        following.take_the_tail_anywhere,
    ),
    Ablation("a pushed entry waits for its LAC", "ledger", following.deliver_what_is_pushed),
    Ablation(
        "a subscription that is over is made anew",
        "ledger",
        following.keep_what_is_over,
        "rare: a ledger that is closed is read to its end all the same; "
        "tests/ledger/test_subscribing.py has it",
    ),
    Ablation("a small read has every entry", "ledger", following.read_what_came_first),
    Ablation("a read in a frame fences if it should", "ledger", following.read_without_a_fence),
    Ablation(
        "an answer in a frame is that of its number",
        "ledger",
        following.answer_the_oldest_read,
        "redundant: an entry is sealed with its ids, so a reader asks the next bookie; "
        "tests/ledger/test_read_link.py has it",
    ),
    Ablation("a bookie pushes against credit", "ledger", following.push_without_credit),
    Ablation("numbered entries wait for those before them", "numbered", writing.send_over_a_gap),
    Ablation("an entry id is taken once", "numbered", writing.take_an_id_again),
    Ablation(
        "each entry of a batch is on enough bookies",
        "ledger",
        recovery.look_at_the_first_of_a_batch,
        "rare: the bookies that refuse a write-back mostly hold the entries already; "
        "tests/ledger/test_write_back.py has it",
        mixes.starved,
    ),
)
