#!/usr/bin/env bash
# Runs every suite on everything that it is for and compares the implemented RPCs with the committed list. The last line is a
# JSON object; the head of services/gantry/conformance/main.go says more.
#
#   deploy/scripts/conformance.sh [--only PATTERN] [--write]
set -euo pipefail
cd "$(dirname "$0")/../.."
exec go run ./services/gantry/conformance "$@"
