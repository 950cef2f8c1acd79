package memory

import (
	"github.com/gantry-agents/gantry/services/memory/internal/backend/bleveindex"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
)

// indexBackends are the places where indexes can be kept, by the name in the settings.
var indexBackends = map[string]func(Config) index.Backend{
	"disk":   func(c Config) index.Backend { return bleveindex.OnDisk(c.IndexDir) },
	"memory": func(Config) index.Backend { return bleveindex.InMemory() },
}
