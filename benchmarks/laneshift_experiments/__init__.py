"""Each paper's figures and tables, made again in the simulator; ``make experiments ARGS=NAME``."""
