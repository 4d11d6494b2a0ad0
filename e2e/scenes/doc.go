// Package scenes plays the scenes of package scene on real storage. A scene's story, what
// is told while it plays, is a file of package scene; its program here does what the
// story says, and checks what it claims. Each request and its answer are told as they
// were on the wire.
//
//	stage.go  tells the story as far as the program has come, and opens accounts
//	wire.go   requests and answers, caught in the transport
//	child.go  actors that are processes of their own, because they are killed
//	run.go    one run, from its own names in the account to their removal
//	print.go  the telling in a terminal
//
// The scene plays at its own speed, because leases run on while a person reads. The
// terminal and the page take the events from a list at the pace of their reader; the
// times of the events are the real ones.
//
// Next: papers.go, the first scene.
package scenes
