"""A command that takes a word such as `-5.00` or `-Xk2` for an argument, not for an unknown option."""

from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose arguments may begin with one hyphen: a key or an account may, and so may an amount.

    A word with two hyphens is an option, known or not, unless it stands behind `--`.
    """

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that asks whether a word is an option before it reads one."""
        parser: Any = super().make_parser(ctx)
        read = parser._process_opts

        def read_option(word: str, state: Any) -> None:
            if word.startswith("--") or word[:2] in parser._short_opt:
                read(word, state)
            else:
                state.largs.append(word)

        parser._process_opts = read_option
        return parser
