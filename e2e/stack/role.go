package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// listener is one port of a role: where, the variable that says so to the role,
// and whether we chose the port and may choose another.
type listener struct {
	variable string
	addr     netip.AddrPort
	ours     bool // the port
}

// another returns the listener's address with a free port.
func (l *listener) another() (netip.AddrPort, error) {
	free, err := freeAddr()
	return netip.AddrPortFrom(l.addr.Addr(), free.Port()), err
}

// role is one process of the stack and its successors after restarts, which
// keep its name, ports and log.
type role struct {
	name      string      // "workerrole-2"
	binary    string      // path
	dir       string      // state of the stack
	listeners []*listener // the last one is the admin listener

	starting sync.Mutex // one start at a time
	env      []string   // for the next start; guarded by starting

	mu      sync.Mutex
	current *process // nil before the first start
	wanted  bool     // a supervisor restarts it when it ends
}

// process is one life of a role.
type process struct {
	cmd      *exec.Cmd
	instance string        // nonce that only this process and we know
	exited   chan struct{} // closed when the process has ended and was waited for
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// start runs the role and returns when it says that it is ready and its ports
// are known to be its own. It tries other ports when one that we chose was taken
// meanwhile. Cancelling ctx ends the waiting and the process.
//
// A process that took a port may have let go of it before we look: a probe for a free
// port opens it for a moment. The role has ended by then, so a role that ended
// before it was ready is tried on other ports, too, three times at most: it may
// as well have ended because of its configuration.
func (r *role) start(ctx context.Context) error {
	r.starting.Lock()
	defer r.starting.Unlock()
	return r.startHolding(ctx)
}

// startAgain is start for a supervisor: it starts nothing that was stopped on purpose
// meanwhile, and reports whether it started.
func (r *role) startAgain(ctx context.Context) (bool, error) {
	r.starting.Lock()
	defer r.starting.Unlock()
	if !r.isWanted() {
		return false, nil
	}
	return true, r.startHolding(ctx)
}

// rest stops the role for good. A start under way is waited for: it would take the
// end for a failure, and try again.
func (r *role) rest(grace time.Duration) error {
	r.want(false)
	r.starting.Lock()
	defer r.starting.Unlock()
	return r.stop(grace)
}

// restart stops the role, adds to its environment and starts it. A supervisor
// that is just starting the role is waited for, or the process would be the
// supervisor's and have the old environment.
func (r *role) restart(ctx context.Context, grace time.Duration, env []string) error {
	r.starting.Lock()
	defer r.starting.Unlock()
	if err := r.stop(grace); err != nil {
		return err
	}
	r.env = append(r.env, env...)
	defer r.want(true)
	return r.startHolding(ctx)
}

// startHolding is start for who holds r.starting.
func (r *role) startHolding(ctx context.Context) error {
	if p := r.process(); p != nil && p.alive() {
		return fmt.Errorf("start %s: it is running, pid %d", r.name, p.cmd.Process.Pid)
	}
	for attempt := 1; ; attempt++ {
		err := r.startOnce(ctx)
		if err == nil {
			return nil
		}
		ended := false
		if p := r.process(); p != nil {
			ended = !p.alive()
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		if attempt == 5 || ctx.Err() != nil || !r.rechoosePorts(ended && attempt < 3) {
			return fmt.Errorf("start %s: %w", r.name, err)
		}
	}
}

// rechoosePorts gives up those of our chosen ports that another process holds, or
// all of them, and reports whether there were any.
func (r *role) rechoosePorts(all bool) bool {
	again := false
	for _, l := range r.listeners {
		if !l.ours || !all && checkFree(l.addr) == nil {
			continue
		}
		if addr, err := l.another(); err == nil {
			r.mu.Lock()
			l.addr = addr
			r.mu.Unlock()
			again = true
		}
	}
	return again
}

// workerNice is how far workers step back where all roles share a machine. The emulator
// is one process that answers all clients: beside twenty encoders it would have a
// twentieth of a core, and the web role would answer that storage is away. In Azure
// storage is elsewhere.
const workerNice = 5

// withPublicOps has the web role answer operators on its public listener, too, unless
// that is set: a stack is for anyone who starts it, and what uses it has one
// address (docs/decisions/0057-public-operations-are-opt-in.md). Where others are
// let in and there is no token the role would refuse to start.
func withPublicOps(env []string) []string {
	letsOthersIn := lastOf(env, "WEBROLE_HOSTS") != "" || lastOf(env, "WEBROLE_TRUSTED_PROXIES") != ""
	if lastOf(env, "WEBROLE_PUBLIC_OPS") != "" || letsOthersIn && lastOf(env, "WEBROLE_TOKEN") == "" {
		return env
	}
	return append(env, "WEBROLE_PUBLIC_OPS=on")
}

// lastOf is the value that counts of a variable, "" when it is not there.
func lastOf(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, found := strings.CutPrefix(v, name+"="); found {
			return value
		}
	}
	return ""
}

func (r *role) startOnce(ctx context.Context) error {
	log, err := openLog(r.dir, r.name)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor

	p := &process{instance: rand.Text(), exited: make(chan struct{})}
	p.cmd = exec.Command(r.binary) // not CommandContext: roles are stopped by signals, in order
	p.cmd.Dir = r.dir
	p.cmd.Env = append(append([]string{}, r.env...), "CUTROOM_INSTANCE="+p.instance)
	for _, l := range r.listeners {
		p.cmd.Env = append(p.cmd.Env, l.variable+"="+l.addr.String())
	}
	if strings.HasPrefix(r.name, webrole) {
		p.cmd.Env = withPublicOps(p.cmd.Env)
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	ownGroup(p.cmd)
	if err := onLastingThread(p.cmd.Start); err != nil {
		return fmt.Errorf("run %s: %w", r.binary, err)
	}
	if strings.HasPrefix(r.name, worker) {
		// Of the whole group, because a Go program has threads at once. Should it fail,
		// the worker only competes as all others do.
		_ = syscall.Setpriority(syscall.PRIO_PGRP, p.cmd.Process.Pid, workerNice)
	}
	go func() {
		_ = p.cmd.Wait() // the state is in cmd.ProcessState
		close(p.exited)
	}()
	r.mu.Lock()
	r.current = p
	r.mu.Unlock()
	if err := writePID(r.dir, r.name, p.cmd.Process.Pid); err != nil {
		return err
	}
	return r.waitReady(ctx, p)
}

// readyTimeout bounds the start of one role. It is long because a machine may be busy with
// other things, and workers step back; a role that ends is noticed at once.
const readyTimeout = 10 * time.Minute

func (r *role) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := r.askReady(ctx, p)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("it ended: %v\n%s", p.cmd.ProcessState, tail(LogPath(r.dir, r.name), 15))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready after %v: %w\n%s", readyTimeout, err, tail(LogPath(r.dir, r.name), 15))
		case <-tick.C:
		}
	}
}

// direct never uses a proxy and never keeps a connection: the next question may
// be for another process on the same port.
var direct = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   5 * time.Second,
}

// instanceHeader repeats CUTROOM_INSTANCE in every health answer of a role.
const instanceHeader = "X-Cutroom-Instance"

var errOther = errors.New("another process answers on this role's port")

// askReady asks every listener for /readyz and compares the nonce in the answer.
func (r *role) askReady(ctx context.Context, p *process) error {
	for _, l := range r.listeners {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+dialable(l.addr).String()+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("ask %s whether it is ready: %w", r.name, err)
		}
		res, err := direct.Do(req)
		if err != nil {
			return fmt.Errorf("ask %s whether it is ready: %w", r.name, err)
		}
		body, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		_ = res.Body.Close()
		if res.Header.Get(instanceHeader) != p.instance {
			return fmt.Errorf("%s (%s): %w", l.variable, l.addr, errOther)
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s (%s) answers %s: %s", l.variable, l.addr, res.Status, body)
		}
	}
	return nil
}

// dialable is where to connect to a listener: loopback when it listens everywhere.
func dialable(addr netip.AddrPort) netip.AddrPort {
	if !addr.Addr().IsUnspecified() {
		return addr
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addr.Port())
}

// url is where a listener can be reached: the public one, or the admin one.
func (r *role) url(admin bool) string {
	l := r.listeners[0]
	if admin {
		l = r.listeners[len(r.listeners)-1]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return "http://" + dialable(l.addr).String()
}

func (r *role) process() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

func (r *role) want(wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = wanted
}

func (r *role) isWanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wanted
}

// signal sends sig to the process only, never to what it started.
func (r *role) signal(sig os.Signal) error {
	p := r.process()
	if p == nil || !p.alive() {
		return fmt.Errorf("send %v to %s: %w", sig, r.name, os.ErrProcessDone)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to %s: %w", sig, r.name, err)
	}
	return nil
}

// stop asks the role to drain and waits for it; after the grace time it kills it
// and says so. A role that a test has stopped with SIGSTOP is woken first.
func (r *role) stop(grace time.Duration) error {
	r.want(false)
	p := r.process()
	if p == nil {
		return nil
	}
	defer func() { _ = os.Remove(pidPath(r.dir, r.name)) }()
	if !p.alive() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.exited:
		return nil
	case <-time.After(grace):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
	return fmt.Errorf("stop %s: it did not end within %v after SIGTERM and was killed", r.name, grace)
}
