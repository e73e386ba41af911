"""Everything here is deep: it is collected by name only, and has another seed in each run."""

import os
import random

os.environ.setdefault("LANESHIFT_SEED", str(random.randrange(1, 2**32)))

pytest_plugins = ("tiers", "stuck")
