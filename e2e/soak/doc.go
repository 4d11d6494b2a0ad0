// Package soak runs the whole system under load and faults for minutes or hours,
// and then looks from outside at everything that is left.
//
//	schedule_test.go  what will happen: drawn from a seed, printed at the start
//	users_test.go     what people do, and what they were promised
//	chaos_test.go     SIGKILL, SIGTERM, SIGSTOP, zombies, cleared queues
//	watcher_test.go   what must never happen, looked for all the time
//	check_test.go     what must be true at the end
//	page_test.go      one page
//
// Package inject makes storage busy, slow or silent, and loses replies.
// The emulator itself is never disturbed: it keeps acknowledged writes in memory
// for a while, Azure does not.
//
// Next: run_test.go, which puts them together.
package soak
