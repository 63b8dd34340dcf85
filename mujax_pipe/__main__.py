"""`python -m mujax_pipe` is `mujax-pipe`."""

from mujax_pipe.cli import main

if __name__ == "__main__":
    main()
