package scenes

import (
	"time"

	"github.com/cutroom/cutroom/shared/azq"
)

var (
	_ = register(programs, "papers-scene", papersScene)
	_ = register(children, actorC1, playC1)
)

// The paper's figure (Q11): producers P1 and P2 put messages 1 and 2; C1 dequeues
// message 1; C2 dequeues and deletes message 2; C1 crashes; message 1 becomes visible
// again; C2 dequeues and deletes it. C1 is a process of its own, and its crash is a
// SIGKILL. The story is in shared/scene/stories.

// papersQueue hides a message for 3 s, because the paper's 30 s are long to wait for.
var papersQueue = azq.Spec{Name: "work", Visibility: 3 * time.Second}

const actorC1 = "C1"

func papersScene(s *Stage) {
	s.Prepare(papersQueue)
	s.Desk("P1", papersQueue).put("film", "message 1")
	s.Desk("P2", papersQueue).put("film", "message 2")
	s.Next(papersQueue.Visibility)
	asked := time.Now()
	c1 := s.Start(actorC1)
	defer c1.Kill()
	c1.Until("holds message 1")
	s.Next()
	c2 := s.Desk("C2", papersQueue)
	second := c2.takeOne()
	c2.delete(second)
	s.Claim(id(second) == "message 2")

	// snippet: crash-and-reappear
	c1.Kill()
	s.Next(c1.PID())          // "process 4711 crashes (SIGKILL)"
	s.Claim(c2.length() == 1) // "the queue holds one message, which no consumer can see"
	first := c2.takeOne()
	s.Claim(id(first) == "message 1" && first.DequeueCount == 2) // "C2 got message 1, in its second delivery"
	s.Claim(time.Since(asked) >= papersQueue.Visibility)         // "it was hidden for the whole visibility timeout"
	c2.delete(first)
	s.Claim(c2.length() == 0) // "the queue is empty: no message was lost, although a consumer was"
	// end snippet
}

// playC1 dequeues one message, says so, and works on it for ever.
func playC1(s *Stage) {
	s.Mark("holds " + id(s.Desk(actorC1, papersQueue).takeOne()))
	s.Hang()
}
