"""Which bookie a directory belongs to: cookies, directories, registration.

Read `cookie.py`, `directories.py` with `spread_disk.py` (several directories), `identity.py`
(format and prove), `registration.py` (the lease by which clients find the bookie), `wish_watch.py`
(an operator's wish), `heart.py` (a sign of life that stays).

May import: entries, journal, disk; all but cookie.py and spread_disk.py the metadata store.
"""
