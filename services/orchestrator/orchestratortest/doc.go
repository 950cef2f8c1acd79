// Package orchestratortest is the black-box suite of the orchestrator's services. It knows nothing but their client, so it tests any implementation at any
// address, provided that the model "scripted:script" there plays [Script] and is the default model.
//
// [Cluster] gives tests replicas of this implementation over services in memory.
package orchestratortest
