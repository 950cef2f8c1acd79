// Package threadtest is the black-box suite of gantry.thread.v1.ThreadService: it runs against any implementation, in memory, in a process or somebody
// else's, through the generated client alone.
//
//	func TestThreadService(t *testing.T) {
//		threadtest.Run(testkit.Wrap(t), func(tb testing.TB) grpc.ClientConnInterface { … })
//	}
//
// It makes threads under users with random names, so it may run against a service with data in it. Expiry takes the service's own time: 1.5 seconds.
package threadtest
