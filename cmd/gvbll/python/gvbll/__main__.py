"""Runs the program, as `python -m gvbll` and as the command gvbll."""

import os
import sys

from ._program import program


def main() -> None:
    """Replaces this process by the program, with the same arguments."""
    file = program()
    os.execv(file, [file, *sys.argv[1:]])


if __name__ == "__main__":
    main()
