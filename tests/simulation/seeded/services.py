"""A function's AWS clients, with latency and faults."""

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from settlement.core.store.wire import from_wire
from tests.simulation.seeded.asking import EXCHANGE_MS
from tests.simulation.seeded.chance import READS, STARTS, WRITES, Fault
from tests.simulation.seeded.payees import LAG_MS_MAX
from tests.world.expressions import Item
from tests.world.interpreter import ARN, TaskFailed
from tests.world.memory_dynamodb import error

if TYPE_CHECKING:
    from tests.simulation.seeded.world import World


class Services:
    service = "provider"

    def __init__(self, world: "World") -> None:
        self._world = world

    def send(
        self,
        name: str,
        kinds: Sequence[Fault],
        effect: Callable[[], Any],
        conflict: Callable[[], Exception] | None = None,
        again: Callable[[], Any] | None = None,
    ) -> Any:
        world, hub = self._world, self._world.hub
        fault = world.fault(kinds, self.service or ("writes" if kinds is WRITES else "reads"), name)
        if fault:
            if fault is Fault.FROZEN:
                world.freeze()
            elif fault is Fault.STOPPED:
                world.cloud.stop_caller(hub.process)
            elif fault is Fault.KILLED_BEFORE:
                hub.kill(hub.process)
        hub.sleep(world.chance.latency())
        if fault is Fault.UNREACHED:
            raise ConnectTimeoutError(endpoint_url="https://service.invalid")
        if fault is Fault.THROTTLED:
            raise error(name, "ThrottlingException", "Rate exceeded")
        if fault is Fault.SILENT:
            hub.sleep(EXCHANGE_MS)
            raise ReadTimeoutError(endpoint_url="https://service.invalid")
        if fault is Fault.CONFLICT and conflict:
            raise conflict()
        answer = effect()
        if fault is Fault.KILLED_AFTER:
            hub.kill(hub.process)
        hub.sleep(world.chance.latency())
        if fault is Fault.LOST:
            if again and world.chance.happens(0.5):  # botocore's own retry
                return again()
            raise ReadTimeoutError(endpoint_url="https://service.invalid")
        return answer


class DynamoDb(Services):
    service = ""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._before: dict[str, tuple[int, Item | None]] = {}

    def put_item(self, **parameters: Any) -> Any:
        return self._write("put_item", parameters)

    def update_item(self, **parameters: Any) -> Any:
        return self._write("update_item", parameters)

    def transact_write_items(self, **parameters: Any) -> Any:
        return self._write("transact_write_items", parameters)

    def get_item(self, **parameters: Any) -> Any:
        read = self._world.table.get_item if parameters["ConsistentRead"] else self._lagging
        return self.send("get_item", READS, lambda: read(**parameters))

    def changed(self, row: Item, before: Item | None) -> None:
        """Record an account's previous row, which a lagging read may still return."""
        self._before[row["pk"]["S"]] = (self._world.hub.now, before)

    def _lagging(self, **parameters: Any) -> Any:
        world, latest = self._world, self._world.table.get_item(**parameters)
        at, before = self._before.get(parameters["Key"]["pk"]["S"], (-LAG_MS_MAX, None))
        is_new = world.hub.now - at < LAG_MS_MAX and not world.chance.faults_end
        if not (is_new and world.chance.happens(0.5)):
            return latest
        world.count("LaggingRead", 1)
        latest.pop("Item", None)
        return latest | ({"Item": before} if before else {})

    def query(self, **parameters: Any) -> Any:
        table, read = self._world.table, plain if "Limit" in parameters else _as_it_is
        if "IndexName" in parameters:
            read = _as_it_is
        if ":since" in parameters["ExpressionAttributeValues"]:  # only an alarm's metric depends on it
            return read(table.query(**parameters))
        return self.send("query", READS, lambda: read(table.query(**parameters)))

    def scan(self, **parameters: Any) -> Any:
        table = self._world.table
        return self.send("scan", READS, lambda: plain(table.scan(**parameters)))

    def batch_get_item(self, **parameters: Any) -> Any:
        table = self._world.table
        return self.send("batch_get_item", READS, lambda: table.batch_get_item(**parameters))

    def _write(self, name: str, parameters: dict[str, Any]) -> Any:
        write = getattr(self._world.table, name)

        def again() -> Any:
            """Repeat a write. A transaction is idempotent; another write meets its own effect."""
            if name != "transact_write_items":
                return write(**parameters)
            return {"ConsumedCapacity": []}

        return self.send(
            name, WRITES, lambda: write(**parameters), lambda: self._conflict(name, parameters), again
        )

    def _conflict(self, name: str, parameters: dict[str, Any]) -> ClientError:
        if name != "transact_write_items":
            return error(name, "TransactionConflictException", "Transaction is ongoing for the item")
        writes = [write for item in parameters["TransactItems"] for write in item.values()]
        reasons = self._world.table.reasons(writes)
        position = self._world.chance.within(0, len(reasons))
        code = self._world.chance.one_of(("TransactionConflict", "ThrottlingError"))
        reasons[position] = {"Code": code, "Message": "try again"}
        return error(
            name, "TransactionCanceledException", "Transaction cancelled", CancellationReasons=reasons
        )


EVENT_MS_MAX = 60_000
"""Age at which Lambda drops an event for lack of concurrency."""


class Lambda(Services):
    """Sends events to functions: accepted ones may be late, repeated or lost."""

    service = "lambda"

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: str) -> Any:  # noqa: N803
        function = FunctionName.rpartition(":")[2]
        if InvocationType == "RequestResponse":
            return self.send("invoke", STARTS, lambda: self._wait_for(function, json.loads(Payload)))
        return self.send("invoke", STARTS, lambda: self._accept(function, json.loads(Payload)))

    def _wait_for(self, function: str, payload: Any) -> dict[str, Any]:
        call = self._world.cloud.call(function, payload)
        self._world.hub.wait(call.answer)
        failed = isinstance(call.answer.value, Exception)
        told = json.dumps({"errorType": "X", "errorMessage": "x"} if failed else call.answer.value)
        answer: dict[str, Any] = {"Payload": BytesIO(told.encode())}
        return answer | ({"FunctionError": "Unhandled"} if failed else {})

    def _accept(self, function: str, payload: Any) -> dict[str, int]:
        chance, hub = self._world.chance, self._world.hub
        is_faulty = not chance.faults_end
        times = 0 if is_faulty and chance.happens(0.1) else 1 + (is_faulty and chance.happens(0.2))
        self._world.count("EventLost" if not times else "EventTwice" if times > 1 else "EventOnce", 1)
        for _ in range(times):
            delay = chance.within(0, EVENT_MS_MAX if is_faulty and chance.happens(0.3) else 50)
            hub.spawn(lambda: self._world.cloud.call(function, payload), "the event's queue", delay)
        return {"StatusCode": 202}


def plain(page: Any) -> Any:
    page |= {"Items": [from_wire(item) for item in page["Items"]]}
    if "LastEvaluatedKey" in page:
        page["LastEvaluatedKey"] = from_wire(page["LastEvaluatedKey"])
    return page


def _as_it_is(page: Any) -> Any:
    return page


class AlreadyExists(ClientError):
    """Refuses a start whose name belongs to an ended execution, or to one with another input."""


class DoesNotExist(ClientError): ...


class StepFunctions(Services):
    service = "states"

    class exceptions:  # noqa: N801 (as the client has it)
        ExecutionAlreadyExists = AlreadyExists
        ExecutionDoesNotExist = DoesNotExist

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> Any:  # noqa: A002, N803
        machine = stateMachineArn.rpartition(":")[2]
        return self.send("start_execution", STARTS, lambda: self._start(machine, name, json.loads(input)))

    def describe_execution(self, *, executionArn: str) -> Any:  # noqa: N803
        return self.send("describe_execution", READS, lambda: {"status": self._named(executionArn).status})

    def send_task_success(self, *, taskToken: str, output: str) -> Any:  # noqa: N803
        return self.send("send_task_success", STARTS, lambda: self._wake(taskToken, json.loads(output)))

    def _start(self, machine: str, name: str, data: Any) -> dict[str, str]:
        try:
            return {"executionArn": self._world.cloud.machines.start(machine, data, name).arn}
        except TaskFailed:
            raise AlreadyExists(_told("ExecutionAlreadyExists"), "StartExecution") from None

    def _named(self, arn: str) -> Any:
        prefix, _, rest = arn.partition(":execution:")
        assert prefix == ARN, arn
        for one in self._world.cloud.machines.executions:
            if f"{one.machine}:{one.name}" == rest:
                return one
        raise DoesNotExist(_told("ExecutionDoesNotExist"), "DescribeExecution")

    def _wake(self, token: str, output: Any) -> dict[str, Any]:
        if not self._world.cloud.wake(token, output):
            raise ClientError(_told("TaskTimedOut"), "SendTaskSuccess")
        return {}


def _told(code: str) -> Any:
    return {"Error": {"Code": code, "Message": code}}
