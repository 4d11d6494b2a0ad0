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
//	burst_test.go    60 uploads and no worker
//	change_test.go   cancel, retry, reprocess
//	clip_test.go     clips: all of the above
//	captions_test.go captions: the same
//	early_test.go    uploads that are worked on while they are sent
//	quota_test.go    a web role that is killed, and the place it had reserved
//	deleted_test.go  every queue deleted while videos are in work
//
// What they look at: history_test.go (what must never happen), left_test.go (what may be
// left) and pulse_test.go (whether the machine had time for us).
//
// Begin with lane_test.go, which has what all of them use.
package crash
