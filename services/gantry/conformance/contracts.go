package main

// The descriptors of all contracts, also of those that Gantry only calls.
import (
	_ "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/middleware/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/model/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	_ "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
)
