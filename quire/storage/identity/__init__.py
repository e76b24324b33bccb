"""Which bookie a directory belongs to: cookies, directories, registration.

Read `cookie.py`, `directories.py` with `spread_disk.py` (several directories), `identity.py`
(format and prove), `registration.py` (the lease by which clients find the bookie).

May import: entries, journal, disk; identity.py and registration.py the metadata store.
"""
