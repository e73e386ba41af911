"""Each paper's figures and tables, made again in the simulator; ``laneshift experiment NAME``."""
