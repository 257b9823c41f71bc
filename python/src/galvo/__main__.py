"""``python -m galvo``: the same as the command ``galvo``, whatever else is called so."""

import sys

from galvo.command import main

sys.exit(main())
