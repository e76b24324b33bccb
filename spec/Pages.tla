------------------------------- MODULE Pages -------------------------------
(* The manifest of one log as a head and pages: docs/protocol.md, C18, and   *)
(* the deletion of what was trimmed (docs/formats.md, "Pages of a manifest").*)
(*                                                                           *)
(* Log.tla changes a manifest in one step. This module is why that is sound  *)
(* although old segments are rows of pages, which are records of their own:  *)
(* what the head and its pages list is one list of segments at all times.    *)
(*                                                                           *)
(* All segments here are sealed, and the number of a segment is also that of *)
(* its ledger. A change of the head is a compare-and-set: `fresh` says that  *)
(* the head is as a process read it. The sweep may list pages before or      *)
(* after it reads the head: no order is promised here.                       *)
(*                                                                           *)
(* Every safeguard is a constant; FALSE removes it. tests/spec/pages.py is   *)
(* this module in Python; both must find the same number of states.          *)
(*                                                                           *)
(* Not here: pages of higher levels, files of cold segments, jobs, copies of *)
(* pages with changed rows, changes with an unknown outcome (Log.tla), the   *)
(* deletion of a log, liveness.                                              *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Editors,         \* how many processes move rows into pages
          N,               \* segments
          F,               \* rows of a page
          Names,           \* how many pages are written, at most
          \* the safeguards
          PageFirst,       \* C18 a page is written before the head that names it
          NamesOnce,       \* C18 the page of a lost attempt is not named later
          NamesByCas,      \* a page is named by a compare-and-set on the head it was made from
          HidesTrimmed,    \* rows below the trim point are hidden, where a page still has them
          EmptiedFirst,    \* C18 a doomed page is forgotten after its ledgers are deleted
          OldestFirst,     \* the oldest ledgers are deleted first
          SweepHoldsHead,  \* C18 an orphan is deleted only while the head is as it was read
          SweepMovesHead,  \* C18 the same transaction writes the head
          SparesDoomed     \* a sweep spares doomed pages

VARIABLES head,  \* the record of the manifest
          pgs,   \* pgs[p]: the rows of page p; empty: it is not there
          led,   \* ledgers that are there
          nn,    \* the next name
          ed,    \* editors
          sw,    \* a sweep
          gone   \* pages that the head forgot, and that are to be deleted
vars == <<head, pgs, led, nn, ed, sw, gone>>

X == 1..Editors
P == 1..Names
Range(s) == {s[i] : i \in DOMAIN s}
Min(S) == CHOOSE m \in S : \A o \in S : m <= o
There(p) == pgs[p] # <<>>
NoEditor == [ph |-> "idle", want |-> <<>>, page |-> 0, fresh |-> FALSE]
NoSweep == [ph |-> "idle", named |-> {}, fresh |-> FALSE]

Init == /\ head = [rows |-> <<>>, refs |-> <<>>, first |-> 1, next |-> 1, doomed |-> {},
                   dpages |-> <<>>]
        /\ pgs = [p \in P |-> <<>>] /\ led = {} /\ nn = 1
        /\ ed = [x \in X |-> NoEditor] /\ sw = NoSweep /\ gone = {}

Stale(e) == [x \in X |-> [e[x] EXCEPT !.fresh = FALSE]]
Moved == sw' = [sw EXCEPT !.fresh = FALSE]

Roll == /\ head.next <= N
        /\ head' = [head EXCEPT !.rows = Append(@, head.next), !.next = @ + 1]
        /\ led' = led \cup {head.next}
        /\ ed' = Stale(ed) /\ Moved
        /\ UNCHANGED <<pgs, nn, gone>>

(* ---- an editor ---- *)
ReadHead(x) == /\ ed[x].ph = "idle" /\ Len(head.rows) > F
               /\ ed' = [ed EXCEPT ![x].ph = "read", ![x].fresh = TRUE,
                                   ![x].want = SubSeq(head.rows, 1, F)]
               /\ UNCHANGED <<head, pgs, led, nn, sw, gone>>
NameOf(x) == IF ed[x].page # 0 THEN ed[x].page ELSE nn
(* A page that is there already is taken for the editor's own. *)
WritePage(x) ==
    /\ ed[x].ph = (IF PageFirst THEN "read" ELSE "named") /\ NameOf(x) <= Names
    /\ pgs' = IF There(NameOf(x)) THEN pgs ELSE [pgs EXCEPT ![NameOf(x)] = ed[x].want]
    /\ nn' = IF NameOf(x) = nn THEN nn + 1 ELSE nn
    /\ ed' = [ed EXCEPT ![x] = IF PageFirst THEN [@ EXCEPT !.ph = "wrote", !.page = NameOf(x)]
                               ELSE NoEditor]
    /\ UNCHANGED <<head, led, sw, gone>>
NamePage(x) ==
    /\ ed[x].ph = (IF PageFirst THEN "wrote" ELSE "read") /\ NameOf(x) <= Names
    /\ NamesByCas => ed[x].fresh
    /\ head' = [head EXCEPT !.refs = Append(@, NameOf(x)),
                            !.rows = SubSeq(@, F + 1, Len(@))]
    /\ ed' = [Stale(ed) EXCEPT ![x] = IF PageFirst THEN NoEditor
                                      ELSE [ed[x] EXCEPT !.ph = "named", !.page = NameOf(x)]]
    /\ nn' = IF NameOf(x) = nn THEN nn + 1 ELSE nn
    /\ Moved
    /\ UNCHANGED <<pgs, led, gone>>
LoseRace(x) == /\ ed[x].ph \in {"read", "wrote"} /\ ~ed[x].fresh
               /\ ed' = [ed EXCEPT ![x] = IF NamesOnce THEN NoEditor
                                          ELSE [NoEditor EXCEPT !.page = ed[x].page]]
               /\ UNCHANGED <<head, pgs, led, nn, sw, gone>>

(* ---- trimming, and the deletion of what was trimmed ---- *)
Below(p, to) == \A i \in DOMAIN pgs[p] : pgs[p][i] < to
TrimTo(to) ==
    /\ to > head.first /\ to <= head.next
    /\ LET whole == SelectSeq(head.refs, LAMBDA p : Below(p, to))
           kept == SelectSeq(head.refs, LAMBDA p : ~Below(p, to))
           rows == UNION {Range(pgs[kept[i]]) : i \in DOMAIN kept} \cup Range(head.rows)
       IN head' = [head EXCEPT !.refs = kept, !.dpages = @ \o whole, !.first = to,
                               !.rows = SelectSeq(@, LAMBDA r : r >= to),
                               !.doomed = @ \cup {r \in rows : r >= head.first /\ r < to}]
    /\ ed' = Stale(ed) /\ Moved
    /\ UNCHANGED <<pgs, led, nn, gone>>
InDoomedPages == UNION {Range(pgs[head.dpages[i]]) : i \in DOMAIN head.dpages}
(* Doomed rows wait for doomed pages with older ones; any deletion may be cut short and repeated. *)
DeleteSingle(l) ==
    /\ l \in head.doomed \cap led
    /\ OldestFirst => \A o \in head.doomed \cap led : l <= o
    /\ OldestFirst => \A o \in InDoomedPages \cap led : l <= o
    /\ led' = led \ {l}
    /\ UNCHANGED <<head, pgs, nn, ed, sw, gone>>
ForgetSingle(l) == /\ l \in head.doomed \ led
                   /\ head' = [head EXCEPT !.doomed = @ \ {l}]
                   /\ ed' = Stale(ed) /\ Moved
                   /\ UNCHANGED <<pgs, led, nn, gone>>
DeleteRow(l) ==
    /\ l \in InDoomedPages \cap led
    /\ OldestFirst => \A o \in (InDoomedPages \cup head.doomed) \cap led : l <= o
    /\ led' = led \ {l}
    /\ UNCHANGED <<head, pgs, nn, ed, sw, gone>>
ForgetPage(p) ==
    /\ p \in Range(head.dpages)
    /\ EmptiedFirst => Range(pgs[p]) \cap led = {}
    /\ head' = [head EXCEPT !.dpages = SelectSeq(@, LAMBDA o : o # p)]
    /\ gone' = gone \cup {p}
    /\ ed' = Stale(ed) /\ Moved
    /\ UNCHANGED <<pgs, led, nn>>
RemovePage(p) == /\ p \in gone /\ gone' = gone \ {p}
                 /\ pgs' = [pgs EXCEPT ![p] = <<>>]
                 /\ UNCHANGED <<head, led, nn, ed, sw>>

(* ---- a sweep ---- *)
SweepReads == /\ sw.ph = "idle"
              /\ sw' = [ph |-> "read", fresh |-> TRUE,
                        named |-> Range(head.refs)
                                  \cup (IF SparesDoomed THEN Range(head.dpages) ELSE {})]
              /\ UNCHANGED <<head, pgs, led, nn, ed, gone>>
SweepPage(p) == /\ sw.ph = "read" /\ There(p) /\ p \notin sw.named
                /\ SweepHoldsHead => sw.fresh
                /\ pgs' = [pgs EXCEPT ![p] = <<>>]
                /\ sw' = NoSweep
                /\ ed' = IF SweepMovesHead THEN Stale(ed) ELSE ed
                /\ UNCHANGED <<head, led, nn, gone>>
SweepEnds == /\ sw.ph = "read" /\ sw' = NoSweep
             /\ UNCHANGED <<head, pgs, led, nn, ed, gone>>

Next == \/ Roll
        \/ \E x \in X : ReadHead(x) \/ WritePage(x) \/ NamePage(x) \/ LoseRace(x)
        \/ \E to \in 2..(N + 1) : TrimTo(to)
        \/ \E l \in 1..N : DeleteSingle(l) \/ ForgetSingle(l) \/ DeleteRow(l)
        \/ \E p \in P : ForgetPage(p) \/ RemovePage(p) \/ SweepPage(p)
        \/ SweepReads \/ SweepEnds
Spec == Init /\ [][Next]_vars

(* ---- the promises ---- *)
(* C18: a page that the head names is there. *)
C18 == \A i \in DOMAIN head.refs : There(head.refs[i])
RECURSIVE Rows(_)
Rows(i) == IF i > Len(head.refs) THEN head.rows ELSE pgs[head.refs[i]] \o Rows(i + 1)
Listing == SelectSeq(Rows(1), LAMBDA r : HidesTrimmed => r >= head.first)
(* LIST: head and pages list every segment that was not trimmed, in order, each once. *)
LIST == SelectSeq(Rows(1), LAMBDA r : r >= head.first)
        = [i \in 1..(head.next - head.first) |-> head.first + i - 1]
(* C1: every listed ledger is there. *)
C1 == Range(Listing) \subseteq led
(* FOUND: what is there is in the log, or the head leads to it: nothing is left over. *)
FOUND == led \subseteq Range(Listing) \cup head.doomed \cup InDoomedPages
(* TAIL: the ledgers that are left have no hole. *)
TAIL == \A l \in led : \A m \in l..(head.next - 1) : m \in led
Promises == C18 /\ LIST /\ C1 /\ FOUND /\ TAIL
=============================================================================
