"""What holds for all tests: no example of hypothesis is judged by how long it took, and signals
reach what they start even when the tests run in the background or under nohup, which ignore some.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# As quire does it, for those tests that import gRPC before quire.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

settings.register_profile("quire", deadline=None, print_blob=True)
settings.load_profile("quire")

# What is ignored is inherited by every process that is started; what is handled is not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
