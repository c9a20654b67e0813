from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose arguments may begin with one hyphen, such as `-5.00` or `-Xk2`.

    A word with two hyphens is an option. After `--`, it is an argument.
    """

    def make_parser(self, ctx: Any) -> Any:
        parser: Any = super().make_parser(ctx)
        read = parser._process_opts

        def read_option(word: str, state: Any) -> None:
            if word.startswith("--") or word[:2] in parser._short_opt:
                read(word, state)
            else:
                state.largs.append(word)

        parser._process_opts = read_option
        return parser
