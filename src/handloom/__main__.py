"""`python -m handloom` is the command `handloom`."""

from handloom.cli import main

main()
