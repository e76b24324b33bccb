"""One log that clients of five kinds write at once while gateways die, sleep and leave.

Read `history.py` (what must hold at the end), `clients.py` (the programs), `storm.py` (what befalls
the gateways), and `__main__.py` (`make gateway-soak`).
"""
