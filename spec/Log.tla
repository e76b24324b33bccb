-------------------------------- MODULE Log --------------------------------
(* One name of a log of quire: docs/protocol.md, section 6, with the         *)
(* deletion of a log and the ingest of a job's ledgers.                      *)
(*                                                                           *)
(* A ledger is abstract here. Ledger.tla is why that is sound: recovery ends *)
(* a ledger at or above all that its writer had acknowledged, and bars the   *)
(* writer; after that the writer hears of nothing that is not in the ledger. *)
(* What is left of a ledger when it is deleted, collected and its id is      *)
(* given out again belongs to the seam of both layers, and is modelled.      *)
(*                                                                           *)
(* Every safeguard is a constant. FALSE removes it; README.md lists which    *)
(* promise then breaks. tests/spec/log.py is this module in Python, action   *)
(* by action; both must find the same number of states.                      *)
(*                                                                           *)
(* A change of the manifest is a compare-and-set on the manifest as it was   *)
(* read. If its outcome is unknown it is in flight: it may land at any later *)
(* moment at which the manifest is still, or again, what it was.             *)
(*                                                                           *)
(* Not here: readers, cursors, producers, offload, offsets and times,        *)
(* a seal of the log, trims inside a segment, liveness. A manifest is one    *)
(* record; Pages.tla is why that is sound for one in pages.                  *)
EXTENDS Naturals, Integers, Sequences, FiniteSets

CONSTANTS Leaders,    \* how many processes may lead
          Erasers,    \* how many processes delete the log
          Ids,        \* how many ledgers there may be
          N,          \* records that each leader sends
          Unknown,    \* changes of the manifest whose outcome stays unknown, at most
          CanRoll, CanBreak, CanLeave, CanTrim, CanSweep, CanCollect, CanIngest, CanForget,
          \* the safeguards
          TakeOverIsCas,   \* a takeover is a compare-and-set on what was read before recovery
          EpochGrows,      \* a takeover begins the next epoch
          RecoversAll,     \* a takeover recovers every open ledger, not only the last
          UnknownIsRead,   \* a change whose outcome is unknown is read again
          CreatesOnce,     \* a log whose creation cannot be settled is not created again
          ReadSettles,     \* T3  what was read again after an unknown outcome lands no more
          LeadsOwn,        \* a leader compares the log's identity
          RollIsMine,      \* a leader appends segments while the epoch is its own
          SpareKept,       \* a ledger is kept while a change that lists it may land
          PrevSealedFirst, \* a segment is appended after the one before the last was sealed
          Drains,          \* C6  nothing is sent to a segment before the previous is decided
          SealsClosed,     \* C3  a segment is sealed when its ledger is closed
          ResendsMissing,  \* only what recovery did not find is sent again
          TrimsFirst,      \* a trim changes the manifest first, and deletes after
          TrimsPrefix,     \* a trim removes a prefix
          TrimsOwn,        \* a trim is of the log that its position is from
          SparesEpoch,     \* a sweep spares the ledgers of the present epoch
          RetiresIds,      \* B11 a fence survives the collection of a deleted ledger
          IdsOnce,         \* I1  no id is given out again after the store went back
          ErasesFenced,    \* H8  what is open is closed before a log is deleted
          LedgersFirst,    \* D2  ledgers are deleted before the record of their log
          ErasesOwn,       \* a deletion compares the log's identity
          IngestIsCas,     \* an ingest is a compare-and-set, like a takeover
          IngestsOnce,     \* a job whose part was placed is not ingested again
          DropIsCas        \* a part is dropped together with the manifest that lacks it

VARIABLES man,   \* the manifest
          led,   \* led[l]: the ledger with id l, and what its bookies hold
          nid,   \* the store's counter of ids
          inc,   \* the incarnation of the store: 2 after an older copy was put back
          unk,   \* how many outcomes were unknown
          ldr,   \* leaders
          job,   \* a job with one part, and a process that drops its part
          era,   \* erasers
          asks   \* trims that were asked for: <<log, first segment to keep>>
vars == <<man, led, nid, inc, unk, ldr, job, era, asks>>

X == 1..Leaders
Y == 1..Erasers
L == 1..Ids
Open == 0 - 1           \* the end of an open segment
Part == <<0, 0, 0>>     \* the label of a part that is in no log
NoMan == [log |-> 0, epoch |-> 0, segs |-> <<>>, next |-> 1, trim |-> 1, doomed |-> {},
          ret |-> FALSE, did |-> FALSE]
NoFlight == [on |-> FALSE, base |-> NoMan, val |-> NoMan]
NoLeader == [ph |-> "idle", seen |-> NoMan, new |-> 0, log |-> 0, ep |-> 0, cur |-> 0,
             prev |-> 0, succ |-> 0, k |-> 0, brk |-> FALSE, fl |-> NoFlight]
NoJob == [ph |-> "idle", seen |-> NoMan, part |-> 0, fl |-> NoFlight, drop |-> "idle"]
NoEraser == [ph |-> "idle", seen |-> NoMan]
NoLedger == [st |-> "NONE", sent |-> <<>>, ack |-> 0, end |-> 0, bar |-> FALSE, lab |-> Part]

Init == /\ man = NoMan /\ led = [l \in L |-> NoLedger]
        /\ nid = 1 /\ inc = 1 /\ unk = 0
        /\ ldr = [x \in X |-> NoLeader] /\ job = NoJob /\ era = [y \in Y |-> NoEraser]
        /\ asks = {}

(* ---- what is asked of a manifest ---- *)
Opens(m) == LET o == SelectSeq(m.segs, LAMBDA s : s.end = Open)
            IN [i \in 1..Len(o) |-> o[i].led]
Range(s) == {s[i] : i \in DOMAIN s}
Listed(m) == {m.segs[i].led : i \in DOMAIN m.segs}
Lists(m, l) == l \in Listed(m)
Knows(m, l) == l \in m.doomed \cup Listed(m)
(* What may not change under a takeover. A trim may come in between. *)
Shape(m) == <<m.log, m.epoch, m.next, Opens(m), m.ret>>

(* ---- edits of a manifest ---- *)
EndOf(l) == IF led[l].st = "OPEN" THEN led[l].ack ELSE led[l].end
SealIn(m, l, e) ==  \* a segment in which nothing was written leaves
    IF l \notin Range(Opens(m)) THEN m
    ELSE IF e = 0 THEN [m EXCEPT !.segs = SelectSeq(@, LAMBDA s : s.led # l),
                                 !.doomed = @ \cup {l}]
    ELSE [m EXCEPT !.segs = [i \in DOMAIN @ |-> IF @[i].led = l THEN [@[i] EXCEPT !.end = e]
                                                ELSE @[i]]]
AppendTo(m, l, e) == [m EXCEPT !.segs = Append(@, [num |-> m.next, led |-> l, ep |-> m.epoch,
                                                   end |-> e]),
                               !.next = @ + 1]
RECURSIVE SealAll(_, _)
SealAll(m, ls) == IF ls = <<>> THEN m
                  ELSE SealAll(SealIn(m, Head(ls), EndOf(Head(ls))), Tail(ls))
Following(epoch) == IF EpochGrows THEN epoch + 1 ELSE IF epoch = 0 THEN 1 ELSE epoch
SealOpens(m) == [SealAll(m, Opens(m)) EXCEPT !.epoch = Following(@)]
RECURSIVE Kept(_, _)
Kept(segs, to) == IF segs = <<>> \/ segs[1].num >= to \/ segs[1].end = Open THEN segs
                  ELSE Kept(Tail(segs), to)
Trimmed(m, to) ==
    LET kept == Kept(m.segs, to)
        gone == SubSeq(m.segs, 1, Len(m.segs) - Len(kept))
    IN IF gone = <<>> THEN m
       ELSE [m EXCEPT !.segs = kept, !.trim = gone[Len(gone)].num + 1,
                      !.doomed = @ \cup {gone[i].led : i \in DOMAIN gone}]
CutOut(m, num) ==  \* what TrimsPrefix forbids
    [m EXCEPT !.segs = SelectSeq(@, LAMBDA s : s.num # num),
              !.doomed = @ \cup {m.segs[i].led : i \in {j \in DOMAIN m.segs : m.segs[j].num = num}}]
Retired(m) == LET s == SealOpens(m)
              IN [s EXCEPT !.segs = <<>>, !.trim = s.next, !.ret = TRUE,
                           !.doomed = @ \cup {s.segs[i].led : i \in DOMAIN s.segs}]

(* ---- ledgers ---- *)
(* What bookies hold of an id is still there when the id is given out again. *)
Created(l, lab) == [led EXCEPT ![l] = [st |-> "OPEN", sent |-> led[l].sent, ack |-> 0, end |-> 0,
                                       bar |-> led[l].bar, lab |-> lab]]
There(l) == led[l].st \in {"OPEN", "CLOSED"}
Deleted(l) == IF l = 0 THEN led
              ELSE IF There(l) THEN [led EXCEPT ![l].st = "GONE", ![l].end = EndOf(l)] ELSE led
LogOf(m) == IF m.log # 0 THEN m.log ELSE nid + 10 * (inc - 1)  \* identities are never used again

(* ---- takeover ---- *)
Begin(x) == /\ ldr[x].ph = "idle" /\ ~man.ret
            /\ \A o \in X : o < x => ldr[o].ph # "idle"  \* names of leaders mean nothing
            /\ ldr' = [ldr EXCEPT ![x].ph = "read", ![x].seen = man]
            /\ UNCHANGED <<man, led, nid, inc, unk, job, era, asks>>

Recovered(m) == LET o == Opens(m)
                IN \A i \in DOMAIN o : (RecoversAll \/ i = Len(o)) => led[o[i]].st = "CLOSED"
(* The oldest first. *)
Wants(m, l) == LET o == Opens(m)
               IN \E i \in DOMAIN o : /\ o[i] = l
                                      /\ IF RecoversAll
                                         THEN \A j \in 1..(i-1) : led[o[j]].st # "OPEN"
                                         ELSE i = Len(o)
Wanted == {l \in L : \/ \E x \in X : ldr[x].ph = "read" /\ Wants(ldr[x].seen, l)
                     \/ job.ph = "read" /\ Wants(job.seen, l)
                     \/ \E y \in Y : era[y].ph = "read" /\ Wants(era[y].seen, l)}
Recover(l, e) == /\ led[l].st = "OPEN" /\ l \in Wanted /\ e >= led[l].ack /\ e <= Len(led[l].sent)
                 /\ led' = [led EXCEPT ![l].st = "CLOSED", ![l].end = e, ![l].bar = TRUE]
                 /\ UNCHANGED <<man, nid, inc, unk, ldr, job, era, asks>>

MakeLedger(x) ==
    /\ ldr[x].ph = "read" /\ Shape(man) = Shape(ldr[x].seen) /\ Recovered(ldr[x].seen)
    /\ nid <= Ids
    /\ LET m == ldr[x].seen IN led' = Created(nid, <<LogOf(m), Following(m.epoch), m.next>>)
    /\ ldr' = [ldr EXCEPT ![x].ph = "made", ![x].new = nid]
    /\ nid' = nid + 1
    /\ UNCHANGED <<man, inc, unk, job, era, asks>>

MayInstall(x) ==
    /\ \/ ldr[x].ph = "made"
       \/ ldr[x].ph = "unsure" /\ ~(ldr[x].seen = NoMan /\ CreatesOnce)
    /\ TakeOverIsCas => Shape(man) = Shape(ldr[x].seen)
TakenOver(x) == LET base == IF TakeOverIsCas THEN man ELSE ldr[x].seen
                IN AppendTo([SealOpens(base) EXCEPT !.log = led[ldr[x].new].lab[1]],
                            ldr[x].new, Open)
Leading(x, ph) == [NoLeader EXCEPT !.ph = ph, !.log = led[ldr[x].new].lab[1],
                                   !.ep = led[ldr[x].new].lab[2], !.cur = ldr[x].new]
Install(x) == /\ MayInstall(x)
              /\ man' = TakenOver(x)
              /\ ldr' = [ldr EXCEPT ![x] = Leading(x, "lead")]
              /\ UNCHANGED <<led, nid, inc, unk, job, era, asks>>
InstallUnknown(x) ==
    /\ MayInstall(x) /\ unk < Unknown
    /\ unk' = unk + 1
    /\ ldr' = [ldr EXCEPT ![x].ph = "unsure",
                          ![x].fl = [on |-> TRUE, base |-> man, val |-> TakenOver(x)]]
    /\ UNCHANGED <<man, led, nid, inc, job, era, asks>>
Lands(x) == /\ ldr[x].fl.on /\ ldr[x].fl.base = man
            /\ man' = ldr[x].fl.val
            /\ ldr' = [ldr EXCEPT ![x].fl = NoFlight]
            /\ UNCHANGED <<led, nid, inc, unk, job, era, asks>>

Over(x, fl) == [NoLeader EXCEPT !.ph = "over", !.fl = fl]
(* A later version of the record keeps a change from landing; a creation has none. *)
Left(x) == IF ReadSettles /\ ldr[x].seen = NoMan THEN NoFlight ELSE ldr[x].fl
Settle(x) ==  \* the manifest is read again after an unknown outcome
    /\ ldr[x].ph = "unsure"
    /\ LET l == ldr[x].new IN
       IF ~UnknownIsRead
       THEN led' = Deleted(l) /\ ldr' = [ldr EXCEPT ![x] = Over(x, ldr[x].fl)]
       ELSE IF Lists(man, l)
       THEN /\ UNCHANGED led
            /\ ldr' = [ldr EXCEPT ![x] =
                  Leading(x, IF man.segs[Len(man.segs)].led = l THEN "lead" ELSE "over")]
       ELSE IF Shape(man) # Shape(ldr[x].seen)
       THEN /\ led' = Deleted(l)
            /\ ldr' = [ldr EXCEPT ![x] = Over(x, Left(x))]
       ELSE /\ man = NoMan  \* whether the creation landed and was deleted cannot be told
            /\ UNCHANGED led
            /\ ldr' = [ldr EXCEPT ![x] = Over(x, Left(x))]
    /\ UNCHANGED <<man, nid, inc, unk, job, era, asks>>
Lose(x) == /\ ldr[x].ph \in {"read", "made"} /\ Shape(man) # Shape(ldr[x].seen)
           /\ led' = Deleted(ldr[x].new)
           /\ ldr' = [ldr EXCEPT ![x] = [NoLeader EXCEPT !.fl = ldr[x].fl]]
           /\ UNCHANGED <<man, nid, inc, unk, job, era, asks>>

(* ---- a leader ---- *)
Mine(x) == /\ man # NoMan
           /\ LeadsOwn => man.log = ldr[x].log
           /\ RollIsMine => man.epoch = ldr[x].ep
Writes(x) == ldr[x].ph = "lead" /\ ldr[x].cur # 0
Cur(x) == led[ldr[x].cur]
Decided(x) == ~ldr[x].brk => Cur(x).ack = Len(Cur(x).sent)

Send(x) == /\ Writes(x) /\ ldr[x].succ = 0 /\ ~ldr[x].brk /\ ldr[x].k < N
           /\ led' = [led EXCEPT ![ldr[x].cur].sent =
                                     Append(@, <<ldr[x].log, ldr[x].ep, ldr[x].k + 1>>)]
           /\ ldr' = [ldr EXCEPT ![x].k = @ + 1]
           /\ UNCHANGED <<man, nid, inc, unk, job, era, asks>>
(* The writer of a ledger that was recovered still counts what recovery kept. *)
Ack(x, l) == /\ ldr[x].ph = "lead" /\ l \in {ldr[x].cur, ldr[x].prev}
             /\ led[l].ack < Len(led[l].sent) /\ (led[l].bar => led[l].ack < led[l].end)
             /\ led' = [led EXCEPT ![l].ack = @ + 1]
             /\ UNCHANGED <<man, nid, inc, unk, ldr, job, era, asks>>
(* The handle of the current ledger failed: its leader closes it by recovery. *)
Mend(x, e) ==
    /\ CanBreak /\ Writes(x) /\ ~ldr[x].brk /\ Cur(x).st = "OPEN" /\ Mine(x)
    /\ e >= Cur(x).ack /\ e <= Len(Cur(x).sent)
    /\ LET found == IF ResendsMissing THEN e ELSE Cur(x).ack IN
       /\ led' = [led EXCEPT ![ldr[x].cur].st = "CLOSED", ![ldr[x].cur].end = e,
                             ![ldr[x].cur].bar = TRUE, ![ldr[x].cur].ack = found]
       /\ ldr' = [ldr EXCEPT ![x].brk = TRUE, ![x].k = @ - (Len(Cur(x).sent) - found)]
    /\ UNCHANGED <<man, nid, inc, unk, job, era, asks>>

Rolls(x) == CanRoll /\ Writes(x) /\ ldr[x].succ = 0
MakeSpare(x) == /\ Rolls(x) /\ ldr[x].new = 0 /\ nid <= Ids
                /\ led' = Created(nid, <<ldr[x].log, ldr[x].ep, Cur(x).lab[3] + 1>>)
                /\ ldr' = [ldr EXCEPT ![x].new = nid]
                /\ nid' = nid + 1
                /\ UNCHANGED <<man, inc, unk, job, era, asks>>
MaySucceed(x) == /\ Rolls(x) /\ ldr[x].new # 0 /\ Mine(x)
                 /\ PrevSealedFirst => ldr[x].prev = 0
Succeed(x) == /\ MaySucceed(x)
              /\ man' = IF Lists(man, ldr[x].new) THEN man ELSE AppendTo(man, ldr[x].new, Open)
              /\ ldr' = [ldr EXCEPT ![x].succ = ldr[x].new, ![x].new = 0, ![x].fl = NoFlight]
              /\ UNCHANGED <<led, nid, inc, unk, job, era, asks>>
SucceedUnknown(x) ==
    /\ MaySucceed(x) /\ unk < Unknown /\ ~ldr[x].fl.on /\ ~Lists(man, ldr[x].new)
    /\ unk' = unk + 1
    /\ ldr' = [ldr EXCEPT ![x].fl = [on |-> TRUE, base |-> man,
                                     val |-> AppendTo(man, ldr[x].new, Open)]]
    /\ UNCHANGED <<man, led, nid, inc, job, era, asks>>
DropSpare(x) ==
    /\ Rolls(x) /\ ldr[x].new # 0
    /\ \/ /\ ~Mine(x)  \* deposed
          /\ led' = IF Lists(man, ldr[x].new) THEN led ELSE Deleted(ldr[x].new)
          /\ ldr' = [ldr EXCEPT ![x].ph = "over", ![x].new = 0]
       \/ /\ Mine(x) /\ ~SpareKept /\ ldr[x].fl.on /\ ~Lists(man, ldr[x].new)
          /\ led' = Deleted(ldr[x].new)
          /\ ldr' = [ldr EXCEPT ![x].new = 0]
    /\ UNCHANGED <<man, nid, inc, unk, job, era, asks>>
Switch(x) == /\ Writes(x) /\ ldr[x].succ # 0 /\ ldr[x].prev = 0
             /\ Drains => Decided(x)
             /\ ldr' = [ldr EXCEPT ![x].prev = ldr[x].cur, ![x].cur = ldr[x].succ,
                                   ![x].succ = 0, ![x].brk = FALSE]
             /\ UNCHANGED <<man, led, nid, inc, unk, job, era, asks>>
Leave(x) == /\ CanLeave /\ Writes(x) /\ Decided(x) /\ ~ldr[x].brk
            /\ ldr[x].succ = 0 /\ ldr[x].prev = 0 /\ ldr[x].new = 0
            /\ ldr' = [ldr EXCEPT ![x].prev = ldr[x].cur, ![x].cur = 0]
            /\ UNCHANGED <<man, led, nid, inc, unk, job, era, asks>>
Close(x) == /\ ldr[x].ph = "lead" /\ ldr[x].prev # 0 /\ led[ldr[x].prev].st = "OPEN"
            /\ led' = [led EXCEPT ![ldr[x].prev].st = "CLOSED", ![ldr[x].prev].bar = TRUE,
                                  ![ldr[x].prev].end = led[ldr[x].prev].ack]
            /\ UNCHANGED <<man, nid, inc, unk, ldr, job, era, asks>>
Seal(x) == /\ ldr[x].ph = "lead" /\ ldr[x].prev # 0 /\ Mine(x)
           /\ SealsClosed => led[ldr[x].prev].st # "OPEN"
           /\ man' = SealIn(man, ldr[x].prev, EndOf(ldr[x].prev))
           /\ ldr' = [ldr EXCEPT ![x].prev = 0]
           /\ UNCHANGED <<led, nid, inc, unk, job, era, asks>>

(* ---- trimming, and deletion of ledgers ---- *)
Sealed(i) == man.segs[i].end # Open
AskTrim(i) == /\ CanTrim /\ asks = {} /\ ~man.ret /\ Sealed(i)
              /\ asks' = {<<man.log, man.segs[i].num + 1>>}
              /\ UNCHANGED <<man, led, nid, inc, unk, ldr, job, era>>
MayTrim(a) == CanTrim /\ ~man.ret /\ (TrimsOwn => a[1] = man.log)
Trim(a) == /\ MayTrim(a)
           /\ man' = IF TrimsPrefix THEN Trimmed(man, a[2]) ELSE CutOut(man, a[2] - 1)
           /\ man' # man
           /\ UNCHANGED <<led, nid, inc, unk, ldr, job, era, asks>>
DeleteEarly(a, i) == /\ ~TrimsFirst /\ MayTrim(a) /\ man.segs[i].num < a[2] /\ Sealed(i)
                     /\ led[man.segs[i].led].st = "CLOSED"
                     /\ led' = Deleted(man.segs[i].led)
                     /\ UNCHANGED <<man, nid, inc, unk, ldr, job, era, asks>>
DeleteDoomed(l) == /\ l \in man.doomed
                   /\ man' = [man EXCEPT !.doomed = @ \ {l}]
                   /\ led' = Deleted(l)
                   /\ UNCHANGED <<nid, inc, unk, ldr, job, era, asks>>
Sweep(l) == /\ CanSweep /\ man # NoMan /\ There(l) /\ led[l].lab[1] = man.log
            /\ ~Knows(man, l) /\ (SparesEpoch => led[l].lab[2] < man.epoch)
            /\ led' = Deleted(l)
            /\ UNCHANGED <<man, nid, inc, unk, ldr, job, era, asks>>
Collect(l) == /\ CanCollect /\ led[l].st = "GONE"
              /\ led' = [led EXCEPT ![l].st = "COLL", ![l].bar = RetiresIds]
              /\ UNCHANGED <<man, nid, inc, unk, ldr, job, era, asks>>

(* ---- a job with one part of one record ---- *)
IsDone(m) == ~m.did => Knows(m, job.part)
MakePart == /\ CanIngest /\ job.ph = "idle" /\ nid <= Ids
            /\ led' = [led EXCEPT ![nid] = [st |-> "CLOSED", sent |-> Append(@.sent, <<0, 0, 1>>),
                                            ack |-> 0, end |-> Len(@.sent) + 1, bar |-> TRUE,
                                            lab |-> Part]]
            /\ nid' = nid + 1
            /\ job' = [job EXCEPT !.ph = "made", !.part = nid]
            /\ UNCHANGED <<man, inc, unk, ldr, era, asks>>
ReadJob == /\ job.ph = "made" /\ man # NoMan /\ ~man.ret /\ (IngestsOnce => ~IsDone(man))
           /\ job' = [job EXCEPT !.ph = "read", !.seen = man]
           /\ UNCHANGED <<man, led, nid, inc, unk, ldr, era, asks>>
Done == /\ job' = [job EXCEPT !.ph = "done", !.seen = NoMan]
Known == /\ job.ph = "made" /\ IngestsOnce /\ IsDone(man)
         /\ led' = [led EXCEPT ![job.part].ack = 1]
         /\ Done
         /\ UNCHANGED <<man, nid, inc, unk, ldr, era, asks>>
LoseJob == /\ job.ph = "read" /\ Shape(man) # Shape(job.seen)
           /\ job' = [job EXCEPT !.ph = "made", !.seen = NoMan]
           /\ UNCHANGED <<man, led, nid, inc, unk, ldr, era, asks>>
MayIngest == /\ job.ph = "read" /\ Recovered(job.seen) /\ led[job.part].st = "CLOSED"
             /\ IngestIsCas => Shape(man) = Shape(job.seen)
Ingested == [AppendTo(SealOpens(IF IngestIsCas THEN man ELSE job.seen), job.part, 1)
             EXCEPT !.did = TRUE]
Placed(m) == LET s == m.segs[Len(m.segs)]
             IN [led EXCEPT ![s.led].lab = <<m.log, s.ep, s.num>>]
Ingest == /\ MayIngest
          /\ man' = Ingested
          /\ led' = [Placed(Ingested) EXCEPT ![job.part].ack = 1]
          /\ Done
          /\ UNCHANGED <<nid, inc, unk, ldr, era, asks>>
IngestUnknown == /\ MayIngest /\ unk < Unknown
                 /\ unk' = unk + 1
                 /\ job' = [job EXCEPT !.ph = "unsure", !.seen = NoMan,
                                       !.fl = [on |-> TRUE, base |-> man, val |-> Ingested]]
                 /\ UNCHANGED <<man, led, nid, inc, ldr, era, asks>>
Again == /\ job.ph = "unsure"
         /\ job' = [job EXCEPT !.ph = "made", !.seen = NoMan]
         /\ UNCHANGED <<man, led, nid, inc, unk, ldr, era, asks>>
JobLands == /\ job.fl.on /\ job.fl.base = man
            /\ man' = job.fl.val
            /\ led' = Placed(job.fl.val)
            /\ job' = [job EXCEPT !.fl = NoFlight]
            /\ UNCHANGED <<nid, inc, unk, ldr, era, asks>>
MayDrop == CanIngest /\ job.part # 0 /\ led[job.part].st = "CLOSED"
SeeUnlisted == /\ MayDrop /\ job.drop = "idle" /\ ~Lists(man, job.part)
               /\ job' = [job EXCEPT !.drop = "saw"]
               /\ UNCHANGED <<man, led, nid, inc, unk, ldr, era, asks>>
(* The manifest has another version then, so what is in flight cannot land. *)
Drop == /\ MayDrop /\ job.drop = "saw" /\ (DropIsCas => ~Lists(man, job.part))
        /\ led' = Deleted(job.part)
        /\ job' = [job EXCEPT !.drop = "done", !.fl = IF DropIsCas THEN NoFlight ELSE @]
        /\ ldr' = IF DropIsCas THEN [x \in X |-> [ldr[x] EXCEPT !.fl = NoFlight]] ELSE ldr
        /\ UNCHANGED <<man, nid, inc, unk, era, asks>>

(* ---- erasers ---- *)
EraseRead(y) == /\ era[y].ph = "idle" /\ man # NoMan
                /\ \A o \in Y : o < y => era[o].ph # "idle"
                /\ era' = [era EXCEPT ![y] = [ph |-> IF man.ret THEN "retired" ELSE "read",
                                              seen |-> man]]
                /\ UNCHANGED <<man, led, nid, inc, unk, ldr, job, asks>>
EraseLost(y) == /\ era[y].ph = "read" /\ Shape(man) # Shape(era[y].seen)
                /\ era' = [era EXCEPT ![y] = NoEraser]
                /\ UNCHANGED <<man, led, nid, inc, unk, ldr, job, asks>>
Retire(y) == /\ era[y].ph = "read" /\ Shape(man) = Shape(era[y].seen)
             /\ ErasesFenced => \A l \in Range(Opens(era[y].seen)) : led[l].st = "CLOSED"
             /\ man' = Retired(man)
             /\ era' = [era EXCEPT ![y] = [ph |-> "retired", seen |-> Retired(man)]]
             /\ UNCHANGED <<led, nid, inc, unk, ldr, job, asks>>
EraseRecord(y) == /\ era[y].ph = "retired" /\ man # NoMan
                  /\ ErasesOwn => man.log = era[y].seen.log
                  /\ LedgersFirst => man.doomed = {}
                  /\ man' = NoMan
                  /\ era' = [era EXCEPT ![y] = [NoEraser EXCEPT !.ph = "done"]]
                  /\ UNCHANGED <<led, nid, inc, unk, ldr, job, asks>>

(* ---- an operator puts back a copy of the store from before the log ---- *)
Forget == /\ CanForget /\ inc = 1 /\ man # NoMan
          /\ man' = NoMan /\ inc' = 2
          /\ led' = [l \in L |-> [led[l] EXCEPT !.st = "NONE", !.ack = 0, !.end = 0, !.lab = Part]]
          /\ nid' = IF IdsOnce THEN nid ELSE 1
          /\ ldr' = [x \in X |-> IF ldr[x].ph = "idle" THEN NoLeader
                                 ELSE [NoLeader EXCEPT !.ph = "over"]]
          /\ job' = NoJob /\ era' = [y \in Y |-> NoEraser] /\ asks' = {}
          /\ UNCHANGED unk

Next == \/ \E x \in X : \/ Begin(x) \/ MakeLedger(x) \/ Install(x) \/ InstallUnknown(x)
                        \/ Lands(x) \/ Settle(x) \/ Lose(x)
                        \/ Send(x) \/ MakeSpare(x) \/ Succeed(x) \/ SucceedUnknown(x)
                        \/ DropSpare(x) \/ Switch(x) \/ Leave(x) \/ Close(x) \/ Seal(x)
                        \/ \E l \in L : Ack(x, l)
                        \/ Writes(x) /\ \E e \in 0..Len(Cur(x).sent) : Mend(x, e)
        \/ \E l \in L : \/ \E e \in 0..Len(led[l].sent) : Recover(l, e)
                        \/ DeleteDoomed(l) \/ Sweep(l) \/ Collect(l)
        \/ \E i \in DOMAIN man.segs : AskTrim(i) \/ \E a \in asks : DeleteEarly(a, i)
        \/ \E a \in asks : Trim(a)
        \/ MakePart \/ ReadJob \/ Known \/ LoseJob \/ Ingest \/ IngestUnknown \/ Again
        \/ JobLands \/ SeeUnlisted \/ Drop
        \/ \E y \in Y : EraseRead(y) \/ EraseLost(y) \/ Retire(y) \/ EraseRecord(y)
        \/ Forget
Spec == Init /\ [][Next]_vars

(* ---- the promises ---- *)
Segs == man.segs
At(i) == led[Segs[i].led]
(* C1: a ledger that the manifest lists is there. *)
C1 == \A i \in DOMAIN Segs : There(Segs[i].led)
(* C3: at most the last two are open; a sealed one is closed where the manifest says. *)
C3 == /\ Len(Opens(man)) <= 2
      /\ \A i \in DOMAIN Segs : Segs[i].end = Open => i > Len(Segs) - Len(Opens(man))
      /\ \A i \in DOMAIN Segs : Sealed(i) => At(i).st = "CLOSED" /\ At(i).end = Segs[i].end
(* C4: each segment is of the epoch and the number that its ledger was made for, once. *)
C4 == /\ \A i, j \in DOMAIN Segs : i < j => /\ Segs[i].num < Segs[j].num
                                            /\ Segs[i].ep <= Segs[j].ep
                                            /\ Segs[i].led # Segs[j].led
      /\ \A i \in DOMAIN Segs : /\ Segs[i].num < man.next /\ Segs[i].ep <= man.epoch
                                /\ At(i).lab = <<man.log, Segs[i].ep, Segs[i].num>>
                                /\ Segs[i].led \notin man.doomed
(* EP: an epoch of a log has one leader. *)
EP == \A x, y \in X : x # y /\ ldr[x].ep # 0 =>
         <<ldr[x].log, ldr[x].ep>> # <<ldr[y].log, ldr[y].ep>>
(* H8: nothing is acknowledged beyond the end at which a ledger was closed or deleted. *)
H8 == \A l \in L : led[l].st \in {"CLOSED", "GONE", "COLL"} => led[l].ack <= led[l].end
(* KEPT: what is acknowledged is in the log, or was trimmed. *)
KEPT == man # NoMan /\ ~man.ret =>
          \A l \in L : led[l].ack > 0 /\ led[l].lab[1] = man.log /\ led[l].lab[3] >= man.trim =>
             \E i \in DOMAIN Segs : /\ Segs[i].led = l
                                    /\ Sealed(i) => led[l].ack <= Segs[i].end
Content(i) == SubSeq(At(i).sent, 1, IF At(i).st = "OPEN" THEN At(i).ack ELSE At(i).end)
(* L4: the ledgers of a log have the log's own records. *)
L4 == \A i \in DOMAIN Segs : \A k \in DOMAIN Content(i) :
         LET r == Content(i)[k] IN <<r[1], r[2]>> \in {<<0, 0>>, <<At(i).lab[1], At(i).lab[2]>>}
(* C6: the records of each writer are there without a gap and each once. *)
RECURSIVE Joined(_)
Joined(i) == IF i > Len(Segs) THEN <<>>
             ELSE IF At(i).st = "OPEN" THEN <<>> ELSE Content(i) \o Joined(i + 1)
C6 == LET all == Joined(1)
          Of(log, ep) == SelectSeq(all, LAMBDA r : r[1] = log /\ r[2] = ep)
      IN \A w \in {<<all[i][1], all[i][2]>> : i \in DOMAIN all} :
            LET own == Of(w[1], w[2])
            IN /\ man.trim = 1 => own[1][3] = 1
               /\ \A k \in 1..(Len(own) - 1) : own[k + 1][3] = own[k][3] + 1
(* D2: with a log that is gone went every ledger with records of it. *)
D2 == \A l \in L : There(l) /\ led[l].lab[1] \notin {0, man.log} =>
         \A k \in DOMAIN led[l].sent : led[l].sent[k][1] # led[l].lab[1]
(* TR: nothing is trimmed that no client asked of this log to trim. *)
TR == man.trim > 1 /\ ~man.ret => \E a \in asks : a[1] = man.log /\ a[2] >= man.trim
Promises == C1 /\ C3 /\ C4 /\ EP /\ H8 /\ KEPT /\ L4 /\ C6 /\ D2 /\ TR
=============================================================================
