// Package stack starts the whole system as child processes: Azurite, one web
// role and any number of worker roles. `make demo`, `make up` and the
// end-to-end tests use the same code, so what a newcomer runs is what is tested.
//
// A port is trusted only when who answers there repeats a nonce that we gave the
// role. Otherwise one would talk to anyone who had the port first.
//
// Everything that a stack writes is in one folder: NAME.pid, NAME.log, data/.
//
// Next: e2e/cmd/demo, the first user of this package.
package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cutroom/cutroom/shared/azstore/azurite"
)

// Names of the processes; a number follows for roles: "workerrole-2".
const (
	Azurite = "azurite"
	Web     = "webrole-1"
	webrole = "webrole-"
	worker  = "workerrole-"
)

// Worker is the name of the n-th worker, from 1.
func Worker(n int) string { return worker + strconv.Itoa(n) }

// Options says what to start. The zero value is Azurite and a web role without
// workers, on free ports, in a temporary folder.
type Options struct {
	Dir     string // of the state; empty: a temporary folder, which Stop removes
	Bin     string // folder of the built roles; empty: they are built into Dir/bin
	Workers int    // to start with; AddWorker adds more
	// MaxWorkers, if it is more, is for package lab, which follows the queues. Start alone
	// refuses it.
	MaxWorkers int
	// Env is added to Environ for every role, as "NAME=value", and WebEnv for web roles
	// alone. The last value of a name wins.
	Env, WebEnv []string

	// Where the roles listen, as "host:port". Empty: a free port on loopback.
	// Workers after the first always take a free one.
	WebAddr, WebAdminAddr, WorkerAdminAddr string

	BlobPort, QueuePort, TablePort int  // of Azurite; 0: free ones
	InMemory                       bool // what Azurite holds: a fifth cheaper, and lost when it ends

	// ConnectionString uses a storage account that exists instead of starting
	// Azurite. Give every stack a CUTROOM_PREFIX of its own then.
	ConnectionString string
	// Account does the same by name, without a key: Env says how to find an identity.
	Account string
	// Through makes the connection string that the roles get, for a proxy on the way.
	Through func(connectionString string) (string, error)
	// Stopping is called before the roles drain and Stopped when all has ended, each once and
	// also when Start fails: for what runs beside the stack, such as the proxy of Through.
	Stopping, Stopped func()

	Supervise bool          // restarts a process that ends without being asked to
	Grace     time.Duration // for a role to drain after SIGTERM; 0: 30 s
	Log       io.Writer     // gets a line for people about every step; nil: nothing

	lock *os.File // of Dir, from the stack that this one follows; nil: taken at the start
}

// Stack is a running system. Its methods may be called at the same time.
type Stack struct {
	options Options
	log     *log.Logger
	dir     string
	temp    bool
	lock    *os.File
	baseEnv []string // of every role, complete but for its addresses

	background context.Context // ends with Stop
	cancel     context.CancelFunc
	watchers   sync.WaitGroup

	mu      sync.Mutex
	azurite *azurite.Server
	emuLog  *os.File
	roles   map[string]*role
	numbers map[string]int // the highest number given, by the beginning of the name
	stopped bool
}

// Start starts everything and returns when all of it is ready, or stops what it
// started and says what went wrong. ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{options: o, dir: o.Dir, roles: map[string]*role{}, numbers: map[string]int{}}
	s.options.Grace = cmp.Or(o.Grace, 30*time.Second)
	s.log = log.New(cmp.Or(o.Log, io.Discard), "", 0)
	s.background, s.cancel = context.WithCancel(context.Background())
	err := s.prepare()
	if err == nil {
		err = s.startAll(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Stack) prepare() (err error) {
	if o := s.options; o.MaxWorkers > o.Workers {
		return fmt.Errorf("from %d to %d workers, as the queues want: only a stack with a lab does that", o.Workers, o.MaxWorkers)
	}
	if s.dir == "" {
		s.dir, err = os.MkdirTemp("", "cutroom-stack-")
		s.temp = true
	}
	if err == nil {
		s.dir, err = filepath.Abs(s.dir)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(s.dir, dataDir), 0o700)
	}
	if err != nil {
		return fmt.Errorf("make a folder for the stack: %w", err)
	}
	if s.lock = s.options.lock; s.lock != nil {
		return nil
	}
	if s.lock, err = lock(s.dir); err == nil {
		_ = os.Remove(filepath.Join(s.dir, resetFile)) // nearly always there is none
	}
	return err
}

func (s *Stack) startAll(ctx context.Context) error {
	if err := s.checkPorts(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	s.Say("starting the web role and %d worker roles", s.options.Workers)
	// The web role first: it creates what the account lacks, and the workers
	// find it there.
	if _, err := s.addWeb(ctx, s.options.WebAddr, s.options.WebAdminAddr, nil); err != nil {
		return err
	}
	errs := make([]error, s.options.Workers)
	var all sync.WaitGroup
	for i := range errs {
		admin, name := "", s.next(worker)
		if i == 0 {
			admin = s.options.WorkerAdminAddr
		}
		all.Go(func() { errs[i] = s.add(ctx, name, []spot{{"WORKERROLE_ADMIN_ADDR", admin}}, nil) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// ready builds the roles and starts Azurite, at the same time.
func (s *Stack) ready(ctx context.Context) error {
	var buildErr, emulatorErr error
	var both sync.WaitGroup
	if s.options.Bin == "" {
		s.Say("building the roles")
		both.Go(func() { buildErr = Build(ctx, filepath.Join(s.dir, "bin")) })
	}
	if s.ownStorage() {
		both.Go(func() { emulatorErr = s.startAzurite(ctx) })
	}
	both.Wait()
	if err := errors.Join(buildErr, emulatorErr); err != nil {
		return err
	}
	storage := "AZURE_STORAGE_ACCOUNT=" + s.options.Account
	if s.options.Account == "" {
		connection := s.ConnectionString()
		if s.options.Through != nil {
			var err error
			if connection, err = s.options.Through(connection); err != nil {
				return err
			}
		}
		storage = "AZURE_STORAGE_CONNECTION_STRING=" + connection
	}
	s.baseEnv = slices.Concat(Environ(), []string{storage}, s.options.Env)
	return nil
}

// ownStorage reports whether the stack starts Azurite.
func (s *Stack) ownStorage() bool { return s.options.ConnectionString == "" && s.options.Account == "" }

// spot is a variable that says where a role listens, and its value or "".
type spot struct{ variable, addr string }

// add starts a new role, whose program is in its name, and puts it under supervision.
func (s *Stack) add(ctx context.Context, name string, spots []spot, env []string) error {
	binary, _, _ := strings.Cut(name, "-")
	bin, err := filepath.Abs(filepath.Join(cmp.Or(s.options.Bin, filepath.Join(s.dir, "bin")), binary))
	r := &role{name: name, binary: bin, dir: s.dir, env: append(slices.Clone(s.baseEnv), env...), wanted: true}
	for _, spot := range spots {
		l := &listener{variable: spot.variable}
		if err == nil {
			l.addr, err = resolve(cmp.Or(spot.addr, "127.0.0.1:0"))
		}
		if err == nil && l.addr.Port() == 0 {
			l.ours = true
			l.addr, err = l.another()
		}
		r.listeners = append(r.listeners, l)
	}
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return fmt.Errorf("start %s: the stack is stopped", name)
	}
	s.roles[name] = r
	s.mu.Unlock()
	if err := r.start(ctx); err != nil {
		return err
	}
	s.Say("%s is ready at %s (pid %d)", name, r.url(false), r.process().cmd.Process.Pid)
	if s.options.Supervise {
		s.watchers.Go(func() { s.supervise(r) })
	}
	return nil
}

// next is the name of another role.
func (s *Stack) next(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers[prefix]++
	return prefix + strconv.Itoa(s.numbers[prefix])
}

// AddWeb starts another web role with env added to its environment, on free
// ports, and returns its name.
func (s *Stack) AddWeb(ctx context.Context, env ...string) (string, error) {
	return s.addWeb(ctx, "", "", env)
}

func (s *Stack) addWeb(ctx context.Context, addr, admin string, env []string) (name string, _ error) {
	name = s.next(webrole)
	return name, s.add(ctx, name, []spot{{"WEBROLE_ADDR", addr}, {"WEBROLE_ADMIN_ADDR", admin}}, slices.Concat(s.options.WebEnv, env))
}

// AddWorker starts another worker with env added to its environment, and
// returns its name.
func (s *Stack) AddWorker(ctx context.Context, env ...string) (name string, _ error) {
	name = s.next(worker)
	return name, s.add(ctx, name, []spot{{"WORKERROLE_ADMIN_ADDR", ""}}, env)
}

func (s *Stack) role(name string) (*role, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.roles[name]; ok {
		return r, nil
	}
	return nil, fmt.Errorf("the stack has no %q", name)
}

// Kill sends a signal to a role and does not wait. A role that it ends stays down until
// Restart, unless the stack supervises.
func (s *Stack) Kill(name string, sig os.Signal) error {
	r, err := s.role(name)
	if err != nil {
		return err
	}
	return r.signal(sig)
}

// Wait waits until a role's present process has ended, and returns how.
func (s *Stack) Wait(ctx context.Context, name string) (*os.ProcessState, error) {
	r, err := s.role(name)
	if err != nil {
		return nil, err
	}
	p := r.process()
	select {
	case <-p.exited:
		return p.cmd.ProcessState, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %s to end: %w", name, ctx.Err())
	}
}

// Restart starts a role that has ended, on the same ports, with env added to its
// environment from now on, and returns when it is ready. A role that still runs
// is asked to drain first.
func (s *Stack) Restart(ctx context.Context, name string, env ...string) error {
	r, err := s.role(name)
	if err != nil {
		return err
	}
	return r.restart(ctx, s.options.Grace, env)
}

// StopRole drains one role and waits for it; the rest goes on.
func (s *Stack) StopRole(name string) error {
	r, err := s.role(name)
	if err != nil {
		return err
	}
	return r.rest(s.options.Grace)
}

// Pid is the process id of a role or of Azurite, or 0 when it is down.
func (s *Stack) Pid(name string) int {
	if name == Azurite {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.azurite == nil {
			return 0
		}
		return s.azurite.PID()
	}
	r, err := s.role(name)
	if err != nil {
		return 0
	}
	if p := r.process(); p != nil && p.alive() {
		return p.cmd.Process.Pid
	}
	return 0
}

// Names are the roles that were started, in order.
func (s *Stack) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.roles))
}

// Workers are the names of the worker roles that were started, in order.
func (s *Stack) Workers() []string {
	return slices.DeleteFunc(s.Names(), func(name string) bool { return !strings.HasPrefix(name, worker) })
}

// BaseURL is the public address of the first web role, without a final slash.
func (s *Stack) BaseURL() string { return s.url(Web, false) }

// WebURL is BaseURL of any web role.
func (s *Stack) WebURL(name string) string { return s.url(name, false) }

// AdminURL is the address of a role's admin listener, without a final slash.
func (s *Stack) AdminURL(name string) string { return s.url(name, true) }

func (s *Stack) url(name string, admin bool) string {
	r, err := s.role(name)
	if err != nil {
		return ""
	}
	return r.url(admin)
}

// ConnectionString opens the stack's storage.
func (s *Stack) ConnectionString() string {
	if s.options.ConnectionString != "" {
		return s.options.ConnectionString
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.azurite.ConnectionString()
}

// Dir is where the state is.
func (s *Stack) Dir() string { return s.dir }

// Logs is everything that a process has printed, over all its lives.
func (s *Stack) Logs(name string) string {
	text, _ := os.ReadFile(LogPath(s.dir, name))
	return string(text)
}

// Stop drains the roles, then stops Azurite with what it holds in memory
// written. An error says that something had to be killed. Safe to repeat.
func (s *Stack) Stop() error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return nil
	}
	s.stopped = true
	roles := slices.Collect(maps.Values(s.roles))
	s.mu.Unlock()
	if s.options.Stopping != nil {
		s.options.Stopping()
	}
	for _, r := range roles {
		r.want(false)
	}
	s.cancel()
	s.watchers.Wait()

	errs := make([]error, len(roles))
	var all sync.WaitGroup
	for i, r := range roles {
		all.Go(func() { errs[i] = r.stop(s.options.Grace) })
	}
	all.Wait()
	errs = append(errs, s.stopAzurite())
	s.mu.Lock()
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	s.mu.Unlock()
	if s.temp {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	if s.options.Stopped != nil {
		s.options.Stopped()
	}
	return errors.Join(errs...)
}

// Say gives Options.Log a line. Safe for concurrent use.
func (s *Stack) Say(format string, args ...any) { s.log.Printf(format, args...) }

// Signals that tests send to roles.
var (
	Term = syscall.SIGTERM // drain
	Die  = syscall.SIGKILL // crash
	Halt = syscall.SIGSTOP // become a zombie that may wake up
	Wake = syscall.SIGCONT // wake up
)
