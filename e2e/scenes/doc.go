// Package scenes plays the scenes of package scene on real storage and tells what
// happens: what is about to be done, each request and its answer as they were on the
// wire, what that means, and claims that are checked against what really happened. A
// scene is one file and one line in list.go.
//
//	stage.go  what a scene says, and claims
//	wire.go   requests and answers, caught in the transport
//	child.go  actors that are processes of their own, because they are killed
//	run.go    one run, from its own names in the account to their removal
//	print.go  the telling in a terminal
//
// The scene plays at its own speed, because leases run on while somebody reads. Who
// shows it, the terminal or the page, takes the events from a list at the pace of the
// reader; their times are the real ones.
//
// Next: papers.go, the first scene.
package scenes
