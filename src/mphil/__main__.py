"""`python -m mphil` is the `mphil` command; torchrun starts it so."""

from mphil.cli import main

main()
