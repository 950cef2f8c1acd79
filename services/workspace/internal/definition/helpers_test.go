package definition

import "github.com/gantry-agents/gantry/libs/fsops"

func pathOf(text string) fsops.Path { return fsops.PathOf(text) }
