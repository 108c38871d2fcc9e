"""Run the command line as ``python -m maxnorm``."""

from maxnorm.cli import main

main(prog_name="maxnorm")
