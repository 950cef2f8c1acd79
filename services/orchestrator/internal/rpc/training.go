package rpc

import (
	"context"

	"google.golang.org/grpc"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
)

// trainingServer answers that training is not in this version.
type trainingServer struct {
	orchestratorv1.UnimplementedTrainingServiceServer
}

func (trainingServer) RecordFeedback(context.Context, *orchestratorv1.RecordFeedbackRequest) (*orchestratorv1.RecordFeedbackResponse, error) {
	return nil, missing("training.feedback")
}

func (trainingServer) ListFeedback(context.Context, *orchestratorv1.ListFeedbackRequest) (*orchestratorv1.ListFeedbackResponse, error) {
	return nil, missing("training.feedback")
}

func (trainingServer) ExportTrajectories(*orchestratorv1.ExportTrajectoriesRequest, grpc.ServerStreamingServer[orchestratorv1.ExportTrajectoriesResponse]) error {
	return missing("training.export")
}

func (trainingServer) ReplayTrajectory(context.Context, *orchestratorv1.ReplayTrajectoryRequest) (*orchestratorv1.ReplayTrajectoryResponse, error) {
	return nil, missing("training.replay")
}

func (trainingServer) ExportDistillation(*orchestratorv1.ExportDistillationRequest, grpc.ServerStreamingServer[orchestratorv1.ExportDistillationResponse]) error {
	return missing("training.distillation")
}

func (trainingServer) GetOnlineLoop(context.Context, *orchestratorv1.GetOnlineLoopRequest) (*orchestratorv1.GetOnlineLoopResponse, error) {
	return nil, missing("training.online_loop")
}

func (trainingServer) UpdateOnlineLoop(context.Context, *orchestratorv1.UpdateOnlineLoopRequest) (*orchestratorv1.UpdateOnlineLoopResponse, error) {
	return nil, missing("training.online_loop")
}
