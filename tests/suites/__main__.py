"""Run suites of other projects against a gateway: `make suites [NAMES=durable-streams]`.

    python -m tests.suites [NAME …] [--renew]

A suite is installed into build/suites, and run unchanged. What it says must be what its record
says: tests that fail, and refused ones that pass, are named. `--renew` writes the counts of the
record anew; the reason of a refusal is written by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tests.suites import durable_streams, franz_go, kafka_python, librdkafka
from tests.suites.record import HERE, Outcome, load

SUITES: Final[Mapping[str, Callable[[str], Outcome]]] = MappingProxyType(
    {
        durable_streams.NAME: durable_streams.run,
        kafka_python.NAME: kafka_python.run,
        franz_go.NAME: franz_go.run,
        librdkafka.NAME: librdkafka.run,
        librdkafka.IDEMPOTENT_NAME: librdkafka.run_idempotent,
    }
)
"""By name of the record: runs a version of the suite."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = ", ".join(SUITES)
    parser.add_argument(
        "names", nargs="*", choices=[[], *SUITES], metavar="NAME", help=f"{known}; all by default"
    )
    parser.add_argument("--renew", action="store_true", help="write the counts of the record anew")
    given = parser.parse_args()
    is_good = True
    for name in given.names or SUITES:
        record = load(name)
        outcome = SUITES[name](record.version)
        surprises = record.surprises(outcome)
        for each in surprises:
            print(f"✗ {each}")
        print(
            f"{name}: {len(outcome.passed)} passed, {len(outcome.failed)} refused, "
            f"{outcome.skipped} skipped, {len(surprises)} not as recorded"
        )
        if given.renew:
            path = HERE / f"{name}.json"
            fields = json.loads(path.read_text())
            fields |= {"passed": len(outcome.passed), "skipped": outcome.skipped}
            path.write_text(json.dumps(fields, indent=1) + "\n")
        is_good = is_good and not surprises
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
