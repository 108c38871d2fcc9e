"""``python -m maxnorm`` is the command line."""

from maxnorm.cli import main

main(prog_name="maxnorm")
