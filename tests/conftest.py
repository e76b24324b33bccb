"""What holds for all tests: no example of hypothesis is judged by how long it took, and Ctrl-C
reaches what they start even when they were started in the background, where a shell has it ignored.
"""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("quire", deadline=None, print_blob=True)
settings.load_profile("quire")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
