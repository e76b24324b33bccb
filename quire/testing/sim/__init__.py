"""Your service under simulation: seeds, virtual time, crashes, lost messages, exact replay.

    World, SimMachine    processes of an application, a cluster in memory, faults (world.py)
    run, explore         one seed, or many (run.py); `python -m quire.testing.sim` for campaigns
    Weather              which faults come, and how often (weather.py)

Read `world.py`, then `run.py`, `lines.py` (calls that get lost), `inside.py` (time and chance).
Below them is the loop, which quire's own simulator shares: `loop.py`, `process.py`, `policy.py`,
`sealed.py`, `trace.py` and `ending.py`. `campaign.py` is the command.
docs/testing-applications.md is the page for users.

May import: quire.testing, and its imports.
"""

from quire.testing.sim.run import Scenario, SimRun, explore, run
from quire.testing.sim.weather import Trouble, Weather
from quire.testing.sim.world import SimMachine, SimViolation, World

__all__ = [
    "Scenario",
    "SimMachine",
    "SimRun",
    "SimViolation",
    "Trouble",
    "Weather",
    "World",
    "explore",
    "run",
]
