#!/usr/bin/env bash
# Learner steps a second with the learner on a GPU and acting on the CPU, beside all on the CPU.
#
#     pip install '.[cuda12]' && benchmarks/gpu.sh
#
# Where JAX finds no GPU it says so and ends with 3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}

if ! "$python" -c 'import jax, sys; sys.exit(not any(d.platform == "gpu" for d in jax.devices()))' 2>/dev/null; then
  echo "JAX finds no GPU here: nothing was measured. Install mujax-pipe[cuda12] on a machine with one." >&2
  exit 3
fi
for size in S M L; do
  for device in cpu gpu; do
    echo "== size $size, learner on the $device"
    "$python" -m mujax_pipe profile gmz --env CartPole-v1 --size "$size" --batch-size 1024 \
      --num-envs 128 --learner-device "$device" --actor-device cpu | grep -i -E 'learner steps|gradient|reanalyze'
  done
done
