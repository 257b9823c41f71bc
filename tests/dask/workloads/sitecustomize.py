"""Hides installed modules from a process of a test. Python runs this file before all others."""

import os
import sys

for name in os.environ.get("MODULES_TO_MISS", "").split():
    sys.modules[name] = None
