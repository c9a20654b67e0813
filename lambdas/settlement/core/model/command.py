"""A command of `settle` to paste into a shell: the only place where one is put together."""

import shlex


def command(verb: str, *words: str, **options: object) -> str:
    """Return a command line, quoted for a shell; `verb` is trusted text such as `limbo show`.

    A key or an account may begin with a hyphen: such words stand behind `--`, after the options. An option
    of None is left out, and one of True has no value.
    """
    flags: list[str] = []
    for name, value in options.items():
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    is_hidden = any(word.startswith("-") for word in words)
    parts = [*flags, "--", *words] if is_hidden else [*words, *flags]
    return " ".join(("settle", verb, *map(shlex.quote, parts)))
