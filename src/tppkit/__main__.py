"""`python -m tppkit` is `tppkit`."""

from tppkit.cli.main import run

if __name__ == "__main__":
    run()
