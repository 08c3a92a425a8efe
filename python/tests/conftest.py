"""The program `fonio` that `$FONIO` names."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def program():
    """The path of the program fonio of the same build."""
    found = shutil.which(os.environ.get("FONIO", "fonio"))
    if found is None:
        pytest.skip("$FONIO does not name the program fonio, and it is not in PATH")
    return found
