#!/usr/bin/env bash
set -euo pipefail
python -m pip install --quiet --constraint constraints.txt --editable .
