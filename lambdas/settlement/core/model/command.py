"""Composes the `settle` commands that messages show."""

import shlex


def command(verb: str, *words: str, **options: object) -> str:
    """Return a shell-quoted `settle` command. `verb` must be trusted text.

    Words with a leading hyphen follow `--`. An option of None is omitted. An option of True has no value.
    """
    flags: list[str] = []
    for name, value in options.items():
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    is_hidden = any(word.startswith("-") for word in words)
    parts = [*flags, "--", *words] if is_hidden else [*words, *flags]
    return " ".join(("settle", verb, *map(shlex.quote, parts)))
