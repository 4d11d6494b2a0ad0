// Package azurite starts Azurite, the storage emulator, as a child process, for tests and for
// machines of developers. It needs Node and the npm package azurite: see [Find].
//
// Azurite keeps acknowledged writes in memory for up to five seconds. Stop it
// with Stop, which lets it write them, and never kill it in a test that says
// that nothing is lost.
package azurite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// Options says how to start an emulator. The zero value runs one in a new
// temporary directory on free ports.
type Options struct {
	Dir                            string    // where it keeps its data; empty: a temporary directory, removed by Stop
	BlobPort, QueuePort, TablePort int       // 0: a free one
	Log                            io.Writer // what it prints; nil: nothing

	// InMemory keeps everything in memory: for hundreds of thousands of rows, which
	// it would otherwise write to disk, whole, every five seconds.
	InMemory bool

	// CertFile and KeyFile, in PEM: it speaks https and takes tokens of identities
	// besides the key (--oauth basic: it reads a token and does not check its
	// signature). ConnectionString does not fit then.
	CertFile, KeyFile string
}

// Server is a running emulator.
type Server struct {
	Options
	cmd    *exec.Cmd
	exited chan struct{}
	temp   bool
	stop   sync.Once
}

// ErrNotInstalled says that there is no Azurite where Find looks.
var ErrNotInstalled = errors.New("the emulator is not installed: run 'npm ci' in deploy/azurite if there is such a folder, else 'npm install azurite'")

// entry is Azurite's script below the folder that it is installed in.
const entry = "node_modules/azurite/dist/src/azurite.js"

// Find returns Azurite's script: AZURITE_JS if set, else the one that npm has installed in the
// working directory, in a directory above it, or in the folder deploy/azurite of one of them.
func Find() (string, error) {
	if path := os.Getenv("AZURITE_JS"); path != "" {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the emulator: %w", err)
	}
	for {
		for _, folder := range []string{"deploy/azurite", "."} {
			path := filepath.Join(dir, folder, entry)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNotInstalled
		}
		dir = parent
	}
}

// ErrStranger says that another process listens on a port.
var ErrStranger = errors.New("another process listens on this port")

// Taken reports whether a process accepts connections on a loopback port.
func Taken(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Start runs an emulator and returns when it listens. The process ends with
// Stop, and on Linux also with the process that started it. A port that
// another process has is an error that wraps ErrStranger and names it.
func Start(ctx context.Context, o Options) (*Server, error) {
	script, err := Find()
	if err != nil {
		return nil, err
	}
	for _, port := range []int{o.BlobPort, o.QueuePort, o.TablePort} {
		if port != 0 && Taken(port) {
			return nil, fmt.Errorf("start the emulator on port %d: %w", port, ErrStranger)
		}
	}
	// The context only bounds the start: the emulator outlives it. A machine may be busy; an
	// emulator that ends is noticed at once.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return launch(ctx, script, o)
}

// launch starts the process and waits until it has its ports.
func launch(ctx context.Context, script string, o Options) (_ *Server, err error) {
	s := &Server{Options: o, exited: make(chan struct{})}
	if s.Dir == "" {
		if s.Dir, err = os.MkdirTemp("", "azurite-"); err != nil {
			return nil, fmt.Errorf("make a directory for the emulator: %w", err)
		}
		s.temp = true
	}
	place := []string{"--location", s.Dir}
	if s.InMemory {
		place = []string{"--inMemoryPersistence"}
	}
	if s.CertFile != "" {
		place = append(place, "--oauth", "basic", "--cert", s.CertFile, "--key", s.KeyFile)
	}
	s.cmd = exec.Command("node", slices.Concat([]string{script, "--silent", "--disableTelemetry"}, place, []string{
		"--blobPort", strconv.Itoa(s.BlobPort), "--queuePort", strconv.Itoa(s.QueuePort), "--tablePort", strconv.Itoa(s.TablePort)})...)
	said := &announcements{log: o.Log, done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = said, o.Log
	s.cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS=")
	s.cmd.SysProcAttr = childAttributes()
	if err := s.cmd.Start(); err != nil {
		if s.temp {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	select {
	case <-said.done:
		s.BlobPort, s.QueuePort, s.TablePort = said.ports["Blob"], said.ports["Queue"], said.ports["Table"]
		return s, nil
	case <-s.exited:
		err = errors.New("the process ended")
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, fmt.Errorf("start the emulator: %w", errors.Join(err, s.Stop()))
}

// announcements reads from what the emulator prints on which ports it listens: the system
// chooses those that were given as 0, and a stranger on a port cannot be taken for it.
type announcements struct {
	log   io.Writer // gets all of it; may be nil
	text  bytes.Buffer
	ports map[string]int // by service; complete when done is closed
	done  chan struct{}
}

var listening = regexp.MustCompile(`Azurite (\w+) service is successfully listening at \S*:(\d+)\s`)

// Write implements io.Writer.
func (a *announcements) Write(p []byte) (int, error) {
	if len(a.ports) < 3 {
		a.text.Write(p)
		a.ports = map[string]int{}
		for _, match := range listening.FindAllStringSubmatch(a.text.String(), -1) {
			a.ports[match[1]], _ = strconv.Atoi(match[2]) // the pattern allows digits only
		}
		if len(a.ports) == 3 {
			close(a.done)
		}
	}
	if a.log == nil {
		return len(p), nil
	}
	return a.log.Write(p)
}

// PID is the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// ConnectionString is for AZURE_STORAGE_CONNECTION_STRING.
func (s *Server) ConnectionString() string {
	return azstore.AzuriteConnectionString(s.BlobPort, s.QueuePort, s.TablePort)
}

// Stop ends the emulator with SIGTERM, which makes it write what it holds in
// memory, and waits for it. Safe to repeat.
func (s *Server) Stop() error {
	var err error
	s.stop.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.exited:
		case <-time.After(30 * time.Second):
			_ = s.cmd.Process.Kill()
			<-s.exited
			err = errors.New("stop the emulator: it did not end within 30 s and was killed")
		}
		if s.temp {
			err = errors.Join(err, os.RemoveAll(s.Dir))
		}
	})
	return err
}
