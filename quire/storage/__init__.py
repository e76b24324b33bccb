"""One bookie: a storage server that keeps the `Bookie` port's promises on a disk.

    disk < journal < entries < identity < maintenance < offline < serving
         < engine.py < held.py < direct_adds.py < node.py < server.py

A room imports only rooms to its left; tests/test_structure.py holds that. Begin with `node.py` (the
port's implementation), then `journal/record.py`, `entries/ledger_storage.py`. `engine.py` puts the
parts of a node together, `server.py` the process.

May import: values and ports; the doors that the structure test names. Never: quire.ledger.
"""
