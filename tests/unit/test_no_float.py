import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LAMBDAS = Path(__file__).parents[2] / "lambdas"

ALLOWED = {
    # Seconds between two tries of one write; no amount is ever computed from any of these.
    ("settlement/core/store/dynamodb.py", "BACKOFF_BASE_SECONDS, BACKOFF_SECONDS_MAX = (0.05, 0.4)"),
    ("settlement/proof/pages.py", "time.sleep(SystemRandom().uniform(0, min(0.1 * 2 ** failed_tries, 5)))"),
    # DynamoDB counts capacity in halves of units: they go into a log line.
    ("settlement/core/telemetry.py", "_used: dict[str, dict[str, float]] = {}"),
    # Recovery's pace: starts a second, the time between two of them, and a pause after a refused one.
    ("handlers/core/_workers.py", "def starts_per_second() -> float:"),
    ("handlers/core/_workers.py", "return float(os.environ['STARTS_PER_SECOND'])"),
    ("handlers/core/_workers.py", "def pause(seconds: float) -> None:"),
    ("handlers/core/_workers.py", "def __init__(self, per_second: float) -> None:"),
    ("handlers/core/_workers.py", "self._interval = timedelta(seconds=1 / per_second)"),
    ("handlers/core/_takeover.py", "_THROTTLED_SECONDS = 0.1"),
    # The time of an exchange with the KYC provider, and the pauses between its addresses.
    ("settlement/http/connection.py", "Seconds = float"),
    ("settlement/http/connection.py", "PAUSE_SECONDS_MIN, PAUSE_SECONDS = (0.01, 0.25)"),
    (
        "settlement/http/connection.py",
        "pause = max(PAUSE_SECONDS_MIN, min(PAUSE_SECONDS, seconds / 2 / len(addresses)))",
    ),
    # The time of a stage's own checks.
    ("handlers/checks/_checks.py", "SECONDS_MAX = 3.0"),
    ("handlers/checks/_checks.py", "RESERVED_SECONDS = 1.5"),
    (
        "handlers/checks/_checks.py",
        "seconds = min(SECONDS_MAX, context.get_remaining_time_in_millis() / 1000 - RESERVED_SECONDS)",
    ),
    (
        "settlement/checks/together.py",
        "def ask(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:",
    ),
    ("settlement/checks/tools.py", "seconds: float"),
    ("settlement/checks/tools.py", "began: float = field(default_factory=time.monotonic)"),
    ("settlement/checks/tools.py", "@property"),
    # A JSON fraction is refused as an amount: amounts are strings on the wire.
    (
        "settlement/core/model/strict_json.py",
        "def parse(text: str | bytes, *, parse_float: Callable[[str], Any]=float) -> Any:",
    ),
    ("handlers/payruns/_rate.py", "def lines_per_second() -> float:"),
    ("handlers/payruns/_rate.py", "return float(os.environ['LINES_PER_SECOND'])"),
    # The pause between two looks at a row that moves.
    ("settlement/proof/second_look.py", "_PAUSE_SECONDS = 0.2"),
    ("settlement/proof/payout_look.py", "PAUSE_SECONDS = 0.2"),
}
"""Allowed statements with floats, each with its reason. Remove those that the code no longer has."""


def floats(source: str) -> Iterator[str]:
    """Yield the statement of each float literal, true division, and name `float` or `complex`.

    A compound statement, such as a function, gives only its first line.
    """
    tree = ast.parse(source)
    statements = {
        child: node for node in ast.walk(tree) if isinstance(node, ast.stmt) for child in _within(node)
    }
    for node in ast.walk(tree):
        literal = isinstance(node, ast.Constant) and isinstance(node.value, float | complex)
        named = isinstance(node, ast.Name) and node.id in {"float", "complex"}
        attribute = isinstance(node, ast.Attribute) and node.attr in {"float", "truediv", "fdiv"}
        division = isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
        power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _negative(node.right)
        if literal or named or attribute or division or power:
            yield ast.unparse(statements[node]).partition("\n")[0]


def _within(statement: ast.stmt) -> Iterator[ast.AST]:
    yield statement
    waiting = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        yield (node := waiting.pop())
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def test_the_functions_use_floats_only_in_the_allowed_statements() -> None:
    found = {
        (path.relative_to(LAMBDAS).as_posix(), statement)
        for path in LAMBDAS.rglob("*.py")
        for statement in floats(path.read_text())
    }

    assert found == ALLOWED


def test_no_function_imports_a_floating_point_library() -> None:
    for path in LAMBDAS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"math", "statistics", "numpy"}, path


@pytest.mark.parametrize(
    "source",
    ["x = 1.5", "x = 1e3", "x = 2j", "x = a / b", "x /= 2", "x = float(a)", "def f(a: float): pass",
     "x = np.float(a)", "f(map(float, a))", "x = 10 ** -2", "def f(a=0.1): pass"],
)  # fmt: skip
def test_the_scan_finds_each_use_of_floats(source: str) -> None:
    assert list(floats(source))


@pytest.mark.parametrize("source", ["x = 15", "x = a // b", "x = '1.5 / 2'", "x = 10 ** 2", "x = 10_000"])
def test_the_scan_accepts_code_without_floats(source: str) -> None:
    assert not list(floats(source))
