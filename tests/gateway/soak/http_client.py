"""A writer and a reader over HTTP: `write URL,URL LOG` and `read URL,URL LOG END`."""

from __future__ import annotations

import asyncio
import sys
from itertools import cycle
from typing import Any

import httpx

from tests.gateway.soak.ending import Ending, acked, numbers

SECONDS_MAX = 5.0
"""A gateway that is paused answers nothing: then another is asked."""
PAUSE_SECONDS = 0.01
RECORDS = 3
TRY_AGAIN = (307, 429, 503, 504)


async def write(urls: list[str], log: str) -> None:
    """Append numbered records until standard input ends; repeat what has no answer."""
    ending, take = Ending(), numbers()
    places = cycle(urls)
    place, sequence = next(places), 0
    async with httpx.AsyncClient(timeout=SECONDS_MAX) as client:
        while not ending.event.is_set():
            sequence += 1
            mine = take(RECORDS)
            body = {
                "records": [f"http-{number}" for number in mine],
                "producer": {"id": "http", "sequence": sequence},
            }
            while True:
                try:
                    answer = await client.post(f"{place}/v1/logs/{log}/records", json=body)
                except httpx.HTTPError:
                    place = next(places)
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                if answer.status_code == 201:
                    break
                if answer.status_code not in TRY_AGAIN:
                    print("failed", mine[0], answer.status_code, answer.text, flush=True)
                    return
                if answer.status_code == 307:
                    place = answer.headers["Location"].partition("/v1/")[0]
                else:
                    place = next(places)
                await asyncio.sleep(PAUSE_SECONDS)
            given = [each["offset"] for each in answer.json()["records"]]
            if given != list(range(given[0], given[0] + len(mine))):
                print("failed", mine[0], "offsets", given, flush=True)
                return
            acked(mine, given[0])
            await asyncio.sleep(PAUSE_SECONDS)


async def read(urls: list[str], log: str, end: int) -> None:
    """Print the offset and the payload of each record before the offset `end`."""
    start, seen = "beginning", 0
    async with httpx.AsyncClient(timeout=60) as client:
        while seen < end:
            asked = {"from": start, "limit": "1000", "wait": "5s"}
            answer = await client.get(f"{urls[0]}/v1/logs/{log}/records", params=asked)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            for record in found["records"]:
                print(record["offset"], record["value"])
            seen += len(found["records"])
            start = found["next"]


if __name__ == "__main__":
    task, addresses, name, *bound = sys.argv[1:]
    served = addresses.split(",")
    asyncio.run(write(served, name) if task == "write" else read(served, name, int(bound[0])))
