#!/usr/bin/env bash
# Holds the layers of the architecture: who may import whom, with the reason of each rule.
set -euo pipefail
cd "$(dirname "$0")/../.."
prefix=github.com/gantry-agents/gantry
bad=0
refuse() { # PACKAGES FORBIDDEN REASON
	local found
	found=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' $1 2>/dev/null | grep -E " $2" || true)
	if [[ -n "$found" ]]; then
		printf 'imports: %s\n%s\n' "$3" "$found" >&2
		bad=1
	fi
}
refuse "$prefix/gen/..." "$prefix/(libs|services)" "gen imports nothing of ours: clients in other repositories import it"
refuse "$prefix/libs/..." "$prefix/services" "libs are below the services"
for s in workspace memory sandbox task orchestrator gateway; do
	others=$(sed "s/\b$s\b//" <<<"workspace memory sandbox task orchestrator gateway gantry" | xargs | tr ' ' '|')
	refuse "$prefix/services/$s/..." "$prefix/services/($others)(/|$)" "a service knows another by its client only ($s)"
done
refuse "$prefix/libs/..." "(github.com/jackc/pgx|modernc.org/sqlite|github.com/blevesearch|github.com/testcontainers|gocloud.dev|github.com/redis|github.com/johannesboyne)" "weight in libs is weight everywhere"
exit $bad
