"""``maxnorm completion``: completion of commands and options in a shell."""

from __future__ import annotations

import click

from maxnorm.cli.help import SectionedCommand


@click.command(cls=SectionedCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    To enable completion, run the command of your shell, and add it to the configuration of the shell to
    keep it:

    \b
    bash: eval "$(maxnorm completion bash)"
    zsh:  eval "$(maxnorm completion zsh)"
    fish: maxnorm completion fish | source
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    script = completion_class(context.find_root().command, {}, "maxnorm", "_MAXNORM_COMPLETE").source()
    click.echo(script)
