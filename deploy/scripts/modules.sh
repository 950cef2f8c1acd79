#!/usr/bin/env bash
# Writes, into every go.mod of the workspace, a replace line for each sibling module that it requires. `go mod tidy` and
# builds outside of the workspace need them, also for siblings that are required only indirectly; replace lines are not inherited.
set -euo pipefail
cd "$(dirname "$0")/../.."

prefix=github.com/gantry-agents/gantry
for mod in $(go work edit -json | sed -n 's/.*"DiskPath": "\.\/\(.*\)".*/\1/p'); do
	up=$(sed 's#[^/]*#..#g' <<<"$mod")
	for sibling in $(sed -n "s#^\s*\(require \)\?$prefix/\([^ ]*\) v.*#\2#p" "$mod/go.mod" | sort -u); do
		(cd "$mod" && go mod edit -replace="$prefix/$sibling=$up/$sibling")
	done
done
