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
// A scene of yours is a story in shared/scene/stories (JSON; then a line for each thing that is
// told, whose signs story.go has) and a function here, with register and the scene's name.
// Claim checks the next claim and tells it with what follows, up to the next claim or pause;
// Next goes on after a pause. Account opens the account for an actor, whose requests are told;
// Quiet is for preparations and polls. Take the product's packages and not a copy, break what it
// shows once, and see its test red. An actor that is killed is a process of its own: Start
// starts it, and its program is in children.
//
// The scene plays at its own speed, because leases run on while a person reads. The
// terminal and the page take the events from a list at the pace of their reader; the
// times of the events are the real ones.
//
// Next: papers.go, the first scene.
package scenes
