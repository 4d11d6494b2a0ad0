// Package crash shows that no way of dying loses or repeats anything. Its tests
// start the built roles through e2e/stack, kill, freeze and drain workers at
// exact places, and then look at everything that is left: the frames that a
// player gets, the rows, the queues and every blob.
//
//	kill_test.go     SIGKILL at every boundary between two writes, and the rules
//	encoder_test.go  SIGKILL while ffmpeg works; ffmpeg killed alone
//	drain_test.go    SIGTERM while ffmpeg works
//	zombie_test.go   SIGSTOP past the lease, then SIGCONT
//	delete_test.go   delete while workers are busy, dead or frozen
//	outbox_test.go   promises without messages
//	share_test.go    two workers, one video
//	burst_test.go    200 uploads and no worker
//	change_test.go   cancel, retry, reprocess
//	clip_test.go     clips: all of the above
//
// Begin with lane_test.go, which has what all of them use.
package crash
