"""A bank under simulation: tellers are replicas of a service, customers repeat until they know."""

from __future__ import annotations

import asyncio
import json

import quire
from quire.errors import QuireError, RetryError
from quire.service import Applied, Role, ServiceOptions
from quire.testing.sim import SimMachine, World

TELLERS, CUSTOMERS, ORDERS, OPENING = 3, 2, 20, 100
OPTIONS = ServiceOptions(snapshot_records=2)


class Bank:
    """Balances, and the orders that were carried out: a repeated order changes nothing."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.orders: list[str] = []

    def apply(self, command: bytes, at: Applied) -> int:
        order, customer = json.loads(command)
        if order not in self.orders:
            self.orders.append(order)
            self.balances[customer] = self.balances.get(customer, OPENING) - 1
        return self.balances[customer]

    def snapshot(self) -> bytes:
        return json.dumps([self.balances, self.orders]).encode()

    def restore(self, state: bytes) -> None:
        self.balances, self.orders = json.loads(state)


async def teller(machine: SimMachine) -> None:
    bank = Bank()
    async with (
        quire.connect(machine.world.store_uri) as client,
        client.service("bank", bank, machine.name, options=OPTIONS) as service,
    ):

        async def answer(request: str | list[str]) -> int:
            if isinstance(request, list):
                return await service.submit(json.dumps(request).encode())
            await service.barrier()  # what was answered before is seen
            return bank.balances.get(request, OPENING)

        machine.serve(answer)
        await service.wait_role(Role.STOPPED)


async def ask(machine: SimMachine, request: str | list[str]) -> int:
    while True:  # until a teller answers
        try:
            number = machine.random.randrange(TELLERS)
            return int(await machine.call(f"teller-{number}", request, seconds=1))
        except (QuireError, OSError, TimeoutError):
            await asyncio.sleep(0.1)


async def customer(machine: SimMachine) -> None:
    for number in range(machine.disk.get("done", 0), ORDERS):
        await ask(machine, [f"{machine.name}-{number}", machine.name])
        machine.disk["done"] = number + 1
        is_right = (balance := await ask(machine, machine.name)) == OPENING - number - 1
        machine.world.require(is_right, f"{machine.name} has {balance} after {number + 1} orders")


async def scenario(world: World) -> None:
    for number in range(TELLERS):
        world.start(f"teller-{number}", teller, restart_on=(RetryError,))
    customers = [world.start(f"customer-{each}", customer) for each in range(CUSTOMERS)]
    world.begin_faults()
    await asyncio.sleep(10)  # virtual seconds
    await world.heal()
    await world.until(lambda: all(each.is_done for each in customers), "all orders are done")
