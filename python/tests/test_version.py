import re

import laneshift


def test_the_version_is_a_release_number_not_a_guess() -> None:
    assert re.match(r"\d+\.\d+", laneshift.__version__)
