#!/usr/bin/env bash
# Runs the tests of every module. Modules whose faults are mostly races run under the race detector; the stores and the sandbox, whose
# faults are mostly others and whose dependencies are slow to build with it, run their concurrent packages under it.
#
#   deploy/scripts/test.sh [PATTERN]   only tests whose name matches PATTERN
set -uo pipefail
cd "$(dirname "$0")/../.."
run=${1:-}
failed=()
started=$SECONDS
logs="$(mktemp -d)"
trap 'rm -rf "$logs"' EXIT

go_test() { # MODULE FLAGS PACKAGES…
	local m=$1 flags=$2
	shift 2
	local t=$SECONDS
	echo "test: $m $flags $*"
	local log="$logs/${m//\//-}.log"
	(cd "$m" && go test $flags -shuffle=on -timeout 15m ${run:+-run "$run"} "$@") 2>&1 | tee -a "$log"
	((PIPESTATUS[0] == 0)) || failed+=("$m")
	echo "test: $m took $((SECONDS - t)) s"
}

# The binaries that tests start as processes.
make -s build || exit 1

go_test libs -race ./...
go_test services/gateway -race ./...
go_test services/orchestrator -race ./...
go_test services/task -race ./internal/task/...
go_test services/task "" ./...
go_test services/workspace "" ./...
go_test services/memory "" ./...
go_test services/sandbox "" ./...
go_test services/gantry "" ./...
deploy/scripts/clients.sh || failed+=("client examples")

echo "test: all took $((SECONDS - started)) s"
if ((${#failed[@]})); then
	# Whoever sees the end of a long log only should see why.
	echo "test: what failed, with the lines before it:" >&2
	grep -hE -B 25 -A 8 '^ *--- FAIL|^panic:|WARNING: DATA RACE' "$logs"/*.log | grep -vE '^ *--- (PASS|SKIP)|^=== |^PASS|^ok' | tail -n 150 >&2
	grep -hE '^ *--- FAIL|^FAIL|^panic:' "$logs"/*.log | sort -u | tail -n 20 >&2
	echo "test: FAILED in: ${failed[*]}" >&2
	exit 1
fi
