"""One torch thread per test process: parallel tests are slower than serial ones without it."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
