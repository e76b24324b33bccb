"""What asyncio lacks: tasks with an owner, retries, limits of time.

Read `tasks.py` (tasks that end with their owner, the first of some waits, work in a thread),
`backoff.py` (how long to pause between attempts) and `retry.py` (which errors are transient, when
to stop), `timing.py` (a limit of time), `alarm.py` (one timer for many deadlines), `answer.py`
(answers without futures), `once.py` (an event that costs little), `handle.py` (the base of handles
that close), `home.py` (the loop that a handle belongs to), `loops.py` (which event loop to run on).

May import: quire.errors.
"""
