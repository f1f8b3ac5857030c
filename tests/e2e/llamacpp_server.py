"""Runs llama.cpp's own HTTP server out of the xllamacpp wheel: llamacpp_server.py MODEL PORT ALIAS SLOTS."""

import signal
import sys

import xllamacpp

model, port, alias, slots = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
params = xllamacpp.CommonParams()
params.model.path = model
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_ctx = 2048 * slots
params.n_parallel = slots
params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
# One thread: with more than there are idle cores llama.cpp's spin barriers cost hundredfold.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.model_alias = {alias}
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
