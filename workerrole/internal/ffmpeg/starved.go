package ffmpeg

import "time"

const (
	// starvedLook is the pause between two looks at a program.
	starvedLook = 5 * time.Second
	// starvedCPU is how much processor time a program may use up without moving. With
	// less it may be healthy: no chunk needs so much for its next frame.
	starvedCPU = 30 * time.Second
)

// watchStarved calls alive while a program wants a processor and has used little since it
// moved last. On a machine that is busy with other things a program of low priority may get
// none for minutes, and that is not the film's fault: it has not stalled. Of a program that
// waits for anything else, or computes and does not move, nothing is said. It returns what
// ends the watch.
func watchStarved(pid int, pause, most time.Duration, moved func() int64, alive func()) (end func()) {
	moves, base := int64(-1), time.Duration(0)
	return every(pause, func() bool {
		wants, used := processorOf(pid)
		if n := moved(); n != moves {
			moves, base = n, used
		} else if wants && used-base < most {
			alive()
		}
		return true
	})
}
