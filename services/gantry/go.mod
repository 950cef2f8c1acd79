module github.com/gantry-agents/gantry/services/gantry

go 1.26.0

require (
	github.com/gantry-agents/gantry/gen v0.0.0
	github.com/gantry-agents/gantry/libs v0.0.0
	github.com/gantry-agents/gantry/services/gateway v0.0.0
	github.com/gantry-agents/gantry/services/memory v0.0.0
	github.com/gantry-agents/gantry/services/orchestrator v0.0.0
	github.com/gantry-agents/gantry/services/sandbox v0.0.0
	github.com/gantry-agents/gantry/services/task v0.0.0
	github.com/gantry-agents/gantry/services/workspace v0.0.0
)

require (
	github.com/alecthomas/kong v1.17.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261110000943-09e21b237f2c // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/gantry-agents/gantry/gen => ../../gen

replace github.com/gantry-agents/gantry/libs => ../../libs

replace github.com/gantry-agents/gantry/services/workspace => ../../services/workspace

replace github.com/gantry-agents/gantry/services/memory => ../../services/memory

replace github.com/gantry-agents/gantry/services/sandbox => ../../services/sandbox

replace github.com/gantry-agents/gantry/services/task => ../../services/task

replace github.com/gantry-agents/gantry/services/orchestrator => ../../services/orchestrator

replace github.com/gantry-agents/gantry/services/gateway => ../../services/gateway
