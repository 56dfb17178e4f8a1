"""What all tests share.

One torch thread per test process: parallel tests are slower than serial ones without it. Property
tests have no deadline: on a busy machine it would say nothing of the code.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")
