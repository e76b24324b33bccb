"""`python -m quire.testing.sim MODULE:SCENARIO`: see campaign.py."""

from quire.testing.sim.campaign import main

if __name__ == "__main__":
    main(prog_name="python -m quire.testing.sim")
