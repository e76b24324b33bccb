------------------------------- MODULE Ledger -------------------------------
(* One ledger of quire: docs/protocol.md, sections 1 to 4, and the sections   *)
(* on deletion, retired ids and incarnations.                                 *)
(*                                                                            *)
(* Parts: the metadata store, the ledger's writer, recoverers, bookies, the   *)
(* collection of deleted ledgers, and an operator who puts an older copy of   *)
(* the store back.                                                            *)
(*                                                                            *)
(* Every safeguard is a constant. FALSE removes it; README.md lists which     *)
(* promise then breaks. tests/spec/ledger.py is this module in Python, action *)
(* by action; both must find the same number of states.                       *)
(*                                                                            *)
(* Answers are not messages. A durable copy and a fence are permanent, so an  *)
(* answer of a bookie stays true, and its receiver may count it at any later  *)
(* moment. Loss and delay are therefore "not counted yet".                    *)
(*                                                                            *)
(* Not here: LAC in frames (L7), deferred sync, limbo, full quorum, keys,     *)
(* re-replication, liveness, bytes on disk.                                   *)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS B,          \* bookies, numbers
          R,          \* recoverers
          E, Qw, Qa,  \* replication
          N,          \* entries
          Changes,    \* ensemble changes per client, at most
          CanDelete,  \* the ledger may be deleted
          CanForget,  \* a copy of the store from before the ledger may be put back
          CanRevive,  \* a copy of the store with the ledger's first record may be put back
          CanResend,  \* the answer to the creation may be lost; then it is sent again
          \* the safeguards
          ReadsFence,         \* 4.4 every read of a recovery fences
          FenceDurable,       \* B1  a fence survives a restart of the bookie
          RetiresIds,         \* B11 a fence survives the collection of a deleted ledger
          RetiredIsNotAbsent, \* B11 "retired" is not "no such entry" to a recovery
          DeleteCloses,       \* an open ledger is closed before it is deleted
          ResendsUnanswered,  \* I1  a creation that was answered is not sent again
          DropsOlder,         \* B11 a bookie drops what it held before it saw the record gone
          WaitsForAdopt,      \* I1  bookies serve an incarnation once it is adopted
          CreatesAdopted,     \* I1  no id is given out before the incarnation is adopted
          AdoptSkips,         \* I1  adoption lifts the counter above every id given out
          AsksAll,            \* I2  recovery of an older incarnation asks every bookie
          CasFirst,           \* W4  nothing is sent to an ensemble that metadata lacks
          ReplacedForgotten,  \* W3  answers of a replaced bookie do not count
          AbsentIsCovered,    \* 4.4 Qw - Qa + 1 explicit "no such entry"
          FenceIsCovered,     \* 4.2 Qw - Qa + 1 of every write set are fenced
          WritesBack,         \* 4.4 an entry that was read is written back to Qa
          ChangesInMemory,    \* 4.5 ensemble changes of a recovery wait for the close
          CloseIsCas          \* M1  closed is final

VARIABLES meta,    \* the record: [state, frags, last, ver, inc]
          id,      \* the ledger's id, 0 before it was created
          gen,     \* how many ledgers were created: 2 after an old copy of the store
          next,    \* the store's counter of ids
          inc,     \* the incarnation: [now, adopted]
          copy,    \* copy[id][b][e]: 0, or the generation that wrote it
          fenced,  \* fenced[id][b]
          retired, \* retired[b]: ids of collected ledgers
          sent,    \* ordinary adds that were sent: <<b, e>>
          okd,     \* ordinary adds that were answered with success
          late,    \* bookies that may have seen the record gone, before it was made again
          w,       \* the writer: [on, unk, frags, ver, lap, lac, ch]
          r,       \* recoverers
          ends     \* every end that the ledger was given
store == <<id, gen, next, inc, late>>
vars == <<meta, store, copy, fenced, retired, sent, okd, w, r, ends>>

Entry == 1..N
Ids == 1..2
(* Without striping the order inside an ensemble means nothing. *)
Ens == IF E = Qw THEN {s \in [1..E -> B] : \A i \in 1..(E-1) : s[i] < s[i+1]}
       ELSE {s \in [1..E -> B] : \A i, j \in 1..E : i # j => s[i] # s[j]}
FragAt(frags, e) == frags[CHOOSE i \in DOMAIN frags :
                       /\ frags[i].first <= e
                       /\ \A j \in DOMAIN frags : j > i => frags[j].first > e]
WriteSet(frags, e) == LET ens == FragAt(frags, e).ens
                      IN {ens[((e - 1 + i) % E) + 1] : i \in 0..(Qw - 1)}
Range(s) == {s[i] : i \in DOMAIN s}
LastFrag(frags) == frags[Len(frags)]
Cover == Qw - Qa + 1
(* Which bookies come first means nothing. *)
First == [i \in 1..E |-> i]
Serves == WaitsForAdopt => inc.adopted  \* B11, I1: bookies take part

NoReader == [ph |-> "idle", ver |-> 0, read |-> <<>>, frags |-> <<>>, next |-> 0,
             no |-> {}, val |-> 0, got |-> {}, ch |-> 0, all |-> FALSE]
NoWriter == [on |-> FALSE, unk |-> FALSE, frags |-> <<>>, ver |-> 0,
             lap |-> 0, lac |-> 0, ch |-> 0]
WriterOf(m) == [NoWriter EXCEPT !.on = TRUE, !.frags = m.frags, !.ver = m.ver]
NoRecord == [state |-> "NONE", frags |-> <<>>, last |-> 0, ver |-> 0, inc |-> 0]

Init == /\ meta = NoRecord /\ id = 0 /\ gen = 0 /\ next = 1
        /\ inc = [now |-> 1, adopted |-> TRUE]
        /\ copy = [i \in Ids |-> [b \in B |-> [e \in Entry |-> 0]]]
        /\ fenced = [i \in Ids |-> [b \in B |-> FALSE]]
        /\ retired = [b \in B |-> {}]
        /\ sent = {} /\ okd = {} /\ late = {} /\ w = NoWriter /\ ends = {}
        /\ r = [x \in R |-> NoReader]

Create(ens) ==
    /\ meta.state = "NONE" /\ gen < 2 /\ next \in Ids
    /\ CreatesAdopted => inc.adopted
    /\ gen' = gen + 1 /\ id' = next /\ next' = next + 1
    /\ meta' = [state |-> "OPEN", frags |-> <<[first |-> 1, ens |-> ens]>>, last |-> 0,
                ver |-> 1, inc |-> inc.now]
    /\ \/ w' = WriterOf(meta')
       \/ CanResend /\ w' = [NoWriter EXCEPT !.unk = TRUE]
    /\ sent' = {} /\ okd' = {} /\ late' = {}
    /\ UNCHANGED <<inc, copy, fenced, retired, r, ends>>

(* The answer was lost. The record that is there has the token of the creation, *)
(* and is its own; a record that is gone is made once more, with the same id.   *)
(* No record named the ledger before, so its earlier end is no end of it. But a *)
(* bookie that met it in a recovery may have seen the record gone.              *)
FindOwn == /\ w.unk /\ meta.state \in {"OPEN", "IN_RECOVERY", "CLOSED"}
           /\ w' = WriterOf(meta)
           /\ UNCHANGED <<meta, store, copy, fenced, retired, sent, okd, r, ends>>
Resend == /\ CanResend /\ meta.state = "DELETED" /\ (ResendsUnanswered => w.unk)
          /\ meta' = [state |-> "OPEN", frags |-> <<[first |-> 1, ens |-> First]>>, last |-> 0,
                      ver |-> 1, inc |-> meta.inc]
          /\ w' = IF w.unk THEN WriterOf(meta') ELSE w
          /\ ends' = IF w.unk THEN {} ELSE ends
          /\ late' = IF DropsOlder THEN {b \in B : fenced[id][b]} ELSE B
          /\ UNCHANGED <<id, gen, next, inc, copy, fenced, retired, sent, okd, r>>

(* ---- the writer ---- *)
Send == /\ w.on /\ w.lap < N
        /\ w' = [w EXCEPT !.lap = @ + 1]
        /\ sent' = sent \cup {<<b, w.lap + 1>> : b \in WriteSet(w.frags, w.lap + 1)}
        /\ UNCHANGED <<meta, store, copy, fenced, retired, okd, r, ends>>

(* A bookie accepts an ordinary add, durably. B6; other bytes are refused. *)
Add(b, e) ==
    /\ <<b, e>> \in sent /\ <<b, e>> \notin okd /\ Serves
    /\ ~fenced[id][b] /\ id \notin retired[b]
    /\ copy' = [copy EXCEPT ![id][b][e] = gen]
    /\ okd' = okd \cup {<<b, e>>}
    /\ UNCHANGED <<meta, store, fenced, retired, sent, w, r, ends>>

Said(e) == IF ReplacedForgotten THEN {b \in WriteSet(w.frags, e) : <<b, e>> \in okd}
           ELSE {b \in B : <<b, e>> \in okd}
Ack == /\ w.on /\ w.lac < w.lap
       /\ Cardinality(Said(w.lac + 1)) >= Qa
       /\ w' = [w EXCEPT !.lac = @ + 1]
       /\ UNCHANGED <<meta, store, copy, fenced, retired, sent, okd, r, ends>>

Changed(frags, first, ens) ==
    IF LastFrag(frags).first = first THEN [frags EXCEPT ![Len(frags)].ens = ens]
    ELSE Append(frags, [first |-> first, ens |-> ens])
OneOther(old, ens) == IF E = Qw THEN Cardinality(Range(old) \ Range(ens)) = 1
                      ELSE Cardinality({i \in 1..E : old[i] # ens[i]}) = 1

Change(ens, first) ==
    /\ w.on /\ w.ch < Changes /\ first = w.lac + 1
    /\ OneOther(LastFrag(w.frags).ens, ens)
    /\ LET frags == Changed(w.frags, first, ens) IN
       /\ IF CasFirst
          THEN /\ meta.state = "OPEN" /\ meta.ver = w.ver
               /\ meta' = [meta EXCEPT !.frags = frags, !.ver = @ + 1]
          ELSE UNCHANGED meta
       /\ w' = [w EXCEPT !.frags = frags, !.ver = meta'.ver, !.ch = @ + 1]
       /\ sent' = sent \cup {<<b, e>> \in B \X Entry :
                              e > w.lac /\ e <= w.lap /\ b \in WriteSet(frags, e)}
    /\ UNCHANGED <<store, copy, fenced, retired, okd, r, ends>>

WriterCloses ==
    /\ w.on /\ meta.state = "OPEN" /\ meta.ver = w.ver
    /\ meta' = [meta EXCEPT !.state = "CLOSED", !.last = w.lac, !.ver = @ + 1]
    /\ w' = [w EXCEPT !.on = FALSE]
    /\ ends' = ends \cup {w.lac}
    /\ UNCHANGED <<store, copy, fenced, retired, sent, okd, r>>

(* ---- recoverers ---- *)
Begin(x) ==
    /\ r[x].ph = "idle" /\ meta.state \in {"OPEN", "IN_RECOVERY"} /\ Serves
    /\ meta' = IF meta.state = "OPEN"
               THEN [meta EXCEPT !.state = "IN_RECOVERY", !.ver = @ + 1] ELSE meta
    /\ r' = [r EXCEPT ![x] = [NoReader EXCEPT !.ph = "fence", !.ver = meta'.ver,
                              !.read = meta.frags, !.frags = meta.frags,
                              !.all = AsksAll /\ meta.inc < inc.now]]
    /\ UNCHANGED <<store, copy, fenced, retired, sent, okd, w, ends>>

Fence(x, b) == /\ r[x].ph \in {"fence", "read"} /\ ~fenced[id][b] /\ id \notin retired[b]
               /\ b \in Range(LastFrag(r[x].read).ens)
               /\ fenced' = [fenced EXCEPT ![id][b] = TRUE]
               /\ UNCHANGED <<meta, store, copy, retired, sent, okd, w, r, ends>>

(* A retired id answers a fencing request with "retired": that is no coverage, *)
(* unless the safeguard is removed. A recovery that asks all does not wait for *)
(* the ensemble of an old record: each of its reads fences.                    *)
Answered(b) == fenced[id][b] \/ (~RetiredIsNotAbsent /\ id \in retired[b])
Start(x, lac) ==  \* lac: some LAC that a bookie may know
    /\ r[x].ph = "fence" /\ lac <= w.lac
    /\ LET f == LastFrag(r[x].read)
           need == IF FenceIsCovered THEN Cover ELSE 1
       IN /\ ~r[x].all => \A e \in 1..E :
                Cardinality({i \in 0..(Qw-1) : Answered(f.ens[((e-1+i) % E)+1])}) >= need
          /\ r' = [r EXCEPT ![x].ph = "read",
                            ![x].next = IF r[x].all \/ lac < f.first THEN f.first ELSE lac + 1]
    /\ UNCHANGED <<meta, store, copy, fenced, retired, sent, okd, w, ends>>

Asked(x, e) == IF r[x].all THEN B ELSE WriteSet(r[x].read, e)
Reading(x, b, e) == /\ r[x].ph = "read" /\ r[x].val = 0 /\ r[x].next = e /\ e <= N
                    /\ b \in Asked(x, e)
ReadFences(b) == fenced' = IF ReadsFence /\ id \notin retired[b]
                           THEN [fenced EXCEPT ![id][b] = TRUE] ELSE fenced
ReadYes(x, b, e) == /\ Reading(x, b, e) /\ copy[id][b][e] # 0 /\ id \notin retired[b]
                    /\ ReadFences(b)
                    /\ r' = [r EXCEPT ![x].val = copy[id][b][e], ![x].no = {}, ![x].got = {}]
                    /\ UNCHANGED <<meta, store, copy, retired, sent, okd, w, ends>>
ReadNo(x, b, e) == /\ Reading(x, b, e) /\ copy[id][b][e] = 0 /\ b \notin r[x].no
                   /\ id \notin retired[b] \/ ~RetiredIsNotAbsent
                   /\ ReadFences(b)
                   /\ r' = [r EXCEPT ![x].no = @ \cup {b}]
                   /\ UNCHANGED <<meta, store, copy, retired, sent, okd, w, ends>>

WriteBack(x, b, e) == /\ r[x].ph = "read" /\ r[x].val # 0 /\ r[x].next = e
                      /\ b \in WriteSet(r[x].frags, e) /\ b \notin r[x].got
                      /\ id \notin retired[b]
                      /\ copy' = [copy EXCEPT ![id][b][e] = r[x].val]
                      /\ r' = [r EXCEPT ![x].got = @ \cup {b}]
                      /\ UNCHANGED <<meta, store, fenced, retired, sent, okd, w, ends>>
Step(x) == /\ r[x].ph = "read" /\ r[x].val # 0
           /\ WritesBack => Cardinality(r[x].got \cap WriteSet(r[x].frags, r[x].next)) >= Qa
           /\ r' = [r EXCEPT ![x].next = @ + 1, ![x].val = 0, ![x].got = {}, ![x].no = {}]
           /\ UNCHANGED <<meta, store, copy, fenced, retired, sent, okd, w, ends>>

RecoveryChange(x, ens) ==
    /\ r[x].ph = "read" /\ r[x].val # 0 /\ r[x].ch < Changes
    /\ OneOther(LastFrag(r[x].frags).ens, ens)
    /\ LET frags == Changed(r[x].frags, r[x].next, ens) IN
       /\ r' = [r EXCEPT ![x].frags = frags, ![x].ch = @ + 1,
                         ![x].ver = IF ChangesInMemory THEN @ ELSE @ + 1]
       /\ IF ChangesInMemory THEN UNCHANGED meta
          ELSE /\ meta.state = "IN_RECOVERY" /\ meta.ver = r[x].ver
               /\ meta' = [meta EXCEPT !.frags = frags, !.ver = @ + 1]
    /\ UNCHANGED <<store, copy, fenced, retired, sent, okd, w, ends>>

Denials(x) == IF r[x].all THEN Cardinality(B) - Qa + 1 ELSE IF AbsentIsCovered THEN Cover ELSE 1
AtEnd(x) == r[x].next > N \/ Cardinality(r[x].no) >= Denials(x)
RecovererCloses(x) ==
    /\ r[x].ph = "read" /\ r[x].val = 0 /\ AtEnd(x)
    /\ IF CloseIsCas THEN meta.state = "IN_RECOVERY" /\ meta.ver = r[x].ver
       ELSE meta.state \in {"IN_RECOVERY", "CLOSED"}
    /\ meta' = [meta EXCEPT !.state = "CLOSED", !.frags = r[x].frags,
                            !.last = r[x].next - 1, !.ver = @ + 1]
    /\ r' = [r EXCEPT ![x] = [NoReader EXCEPT !.ph = "done"]]
    /\ ends' = ends \cup {r[x].next - 1}
    /\ UNCHANGED <<store, copy, fenced, retired, sent, okd, w>>

(* ---- bookies, deletion, the operator ---- *)
Restart(b) == /\ ~FenceDurable /\ gen > 0 /\ fenced[id][b]
              /\ fenced' = [fenced EXCEPT ![id][b] = FALSE]
              /\ UNCHANGED <<meta, store, copy, retired, sent, okd, w, r, ends>>
(* A gc deletes an open ledger, too, when its creator can use it no more. *)
Delete == /\ CanDelete
          /\ meta.state \in (IF w.unk \/ ~DeleteCloses THEN {"OPEN", "CLOSED"} ELSE {"CLOSED"})
          /\ meta' = [meta EXCEPT !.state = "DELETED", !.ver = @ + 1]
          /\ ends' = IF meta.state = "OPEN" THEN ends \cup {w.lac} ELSE ends
          /\ UNCHANGED <<store, copy, fenced, retired, sent, okd, w, r>>
Collect(b) == /\ b \in (IF meta.state = "DELETED" THEN B ELSE late) /\ id \notin retired[b]
              /\ copy' = [copy EXCEPT ![id][b] = [e \in Entry |-> 0]]
              /\ fenced' = [fenced EXCEPT ![id][b] = FALSE]
              /\ retired' = IF RetiresIds THEN [retired EXCEPT ![b] = @ \cup {id}] ELSE retired
              /\ late' = late \ {b}
              /\ UNCHANGED <<meta, id, gen, next, inc, sent, okd, w, r, ends>>

(* `quire metadata restore`: an older copy of the store, and a new incarnation. *)
Restored == /\ inc.now = 1 /\ inc' = [now |-> 2, adopted |-> FALSE]
Forget == /\ CanForget /\ Restored /\ meta.state # "NONE"
          /\ meta' = NoRecord /\ next' = 1
          /\ w' = NoWriter /\ r' = [x \in R |-> NoReader] /\ ends' = {} /\ sent' = {} /\ okd' = {}
          /\ late' = {}
          /\ UNCHANGED <<id, gen, copy, fenced, retired>>
Revive == /\ CanRevive /\ Restored /\ meta.state # "NONE"
          /\ meta' = [state |-> "OPEN", frags |-> <<[first |-> 1, ens |-> First]>>, last |-> 0,
                      ver |-> 1, inc |-> 1]
          /\ r' = [x \in R |-> NoReader] /\ ends' = {}
          /\ UNCHANGED <<id, gen, next, late, copy, fenced, retired, sent, okd, w>>
Adopt == /\ inc.now = 2 /\ ~inc.adopted
         /\ inc' = [inc EXCEPT !.adopted = TRUE]
         /\ next' = IF AdoptSkips /\ next <= id THEN id + 1 ELSE next
         /\ UNCHANGED <<meta, id, gen, late, copy, fenced, retired, sent, okd, w, r, ends>>

Next == \/ Create(First)
        \/ FindOwn \/ Resend \/ Send \/ Ack \/ WriterCloses \/ Delete \/ Forget \/ Revive \/ Adopt
        \/ gen > 0 /\ \E b \in B, e \in Entry : Add(b, e)
        \/ w.on /\ w.ch < Changes /\ \E ens \in Ens : Change(ens, w.lac + 1)
        \/ \E b \in B : Restart(b) \/ Collect(b)
        \/ \E x \in R : \/ Begin(x) \/ Step(x) \/ RecovererCloses(x)
                        \/ \E lac \in 0..N : Start(x, lac)
                        \/ \E b \in B : Fence(x, b)
                        \/ \E b \in B, e \in Entry :
                              ReadYes(x, b, e) \/ ReadNo(x, b, e) \/ WriteBack(x, b, e)
                        \/ r[x].val # 0 /\ r[x].ch < Changes
                              /\ \E ens \in Ens : RecoveryChange(x, ens)
Spec == Init /\ [][Next]_vars

(* ---- the promises ---- *)
Held(e) == {b \in WriteSet(meta.frags, e) : copy[id][b][e] # 0}
L1 == \A end \in ends : w.lac <= end                  \* no acknowledged entry is cut off
M1 == Cardinality(ends) <= 1                          \* closed is final
L2 == meta.state \in {"OPEN", "IN_RECOVERY", "CLOSED"} /\ CasFirst /\ meta.inc = inc.now =>
        \A e \in 1..w.lac : Held(e) # {}
Collected == \E b \in B : id \in retired[b]           \* then nothing is left to promise
L3 == meta.state = "CLOSED" /\ ~Collected => \A e \in 1..meta.last : Cardinality(Held(e)) >= Qa
L4 == meta.state = "CLOSED" =>                        \* the ledger's own entries
        \A e \in 1..meta.last : \A b \in Held(e) : copy[id][b][e] = gen
L5 == \A i \in 1..Len(meta.frags) : i > 1 => meta.frags[i].first > meta.frags[i-1].first
Promises == L1 /\ M1 /\ L2 /\ L3 /\ L4 /\ L5
Sym == Permutations(R)
=============================================================================
