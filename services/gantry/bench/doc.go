// Package bench measures the suite against bare gRPC on the same machine in the same run: a unary call through each service, in
// one process and across processes, and what a tool step of a run costs beside its model. Figures in microseconds are worth
// little on another machine; the ratios are what to look at.
package bench
