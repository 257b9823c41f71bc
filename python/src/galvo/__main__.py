"""``python -m galvo``: the ``galvo`` command, even if another program has that name."""

import sys

from galvo.command import main

sys.exit(main())
