// Package failpoint lets a test stop a worker at an exact place in the order of
// writes. Nothing happens unless CUTROOM_FAILPOINT is set, which no deployment
// does; then the named point ends or freezes the process the first time that it
// is reached:
//
//	CUTROOM_FAILPOINT=encode/committed:kill:/some/marker
//
// The marker file makes it happen once: a restarted worker finds it and goes on.
// A number after the name, as in encode/committed#4, lets the point pass that
// often less one: it happens the fourth time.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Variable is the environment variable that arms a failpoint.
const Variable = "CUTROOM_FAILPOINT"

type armed struct {
	name, marker string
	signal       syscall.Signal
	passes       atomic.Int64 // how often the point may still be passed
}

var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "term": syscall.SIGTERM}

var point = sync.OnceValues(func() (*armed, error) { return parse(os.Getenv(Variable)) })

func parse(text string) (*armed, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return nil, fmt.Errorf("%s=%q is not name:signal:marker", Variable, text)
	}
	signal, known := signals[parts[1]]
	if !known {
		return nil, fmt.Errorf("%s: signal %q is not kill, stop or term", Variable, parts[1])
	}
	name, count, counted := strings.Cut(parts[0], "#")
	nth, err := strconv.ParseInt(count, 10, 32)
	if counted && (err != nil || nth < 1) {
		return nil, fmt.Errorf("%s: %q does not end in a number of at least 1", Variable, parts[0])
	}
	p := &armed{name: name, signal: signal, marker: parts[2]}
	p.passes.Store(max(nth-1, 0))
	return p, nil
}

// Check returns an error when the variable is set to something unreadable.
func Check() error {
	_, err := point()
	return err
}

// Hit is called at the points. Only the armed one does anything.
func Hit(name string) {
	p, _ := point()
	if p == nil || p.name != name || p.passes.Add(-1) >= 0 {
		return
	}
	f, err := os.OpenFile(p.marker, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // it happened already
	}
	_ = f.Close()
	if p.signal == syscall.SIGSTOP {
		freeze()
		return
	}
	_ = syscall.Kill(os.Getpid(), p.signal)
	if p.signal == syscall.SIGKILL {
		select {} // the signal is on its way: do not run past the point
	}
}
