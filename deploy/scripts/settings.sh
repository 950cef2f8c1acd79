#!/usr/bin/env bash
# Writes docs/settings.md from the settings of every program, so that the page can't differ from the code.
# With --check it writes nothing and fails when the page is not what it would write.
set -euo pipefail
cd "$(dirname "$0")/../.."

page() {
	echo "# Settings"
	echo
	echo "Written by \`make settings\` from the programs themselves. Order of precedence: default, then the file of \`--config\` (YAML, keys"
	echo "are the names below), then the environment, then the flag. \`--print-config\` shows what is in effect, without secrets."
	for s in workspace memory sandbox task orchestrator gateway; do
		printf '\n## %s\n\n' "$s"
		env -i PATH="$PATH" HOME="$HOME" "bin/$s" --print-markdown
	done
}
if [[ "${1:-}" == --check ]]; then
	diff <(page) docs/settings.md >/dev/null || { echo "settings: docs/settings.md is old: make settings" >&2; exit 1; }
else
	page >docs/settings.md
fi
