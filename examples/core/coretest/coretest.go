// Package coretest runs a product of package core for its tests, in this process or in one that
// can be killed.
//
//	func TestMain(m *testing.M) { coretest.Main(m, product) }
package coretest

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cutroom/cutroom/examples/core"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
	"github.com/cutroom/cutroom/shared/engine"
)

// stopsAt is a point in the order of writes at which a test binary, started again as a process
// of its own, runs its product instead of its tests, says so and goes no further.
const stopsAt = "CORE_TEST_STOPS_AT"

// Main is for TestMain.
func Main[P any](m *testing.M, product core.Product[P]) {
	if point := os.Getenv(stopsAt); point != "" {
		log.Fatal(stopAt(product, point))
	}
	azuritetest.Main(m)
}

func stopAt[P any](product core.Product[P], point string) error {
	account, err := azstore.OpenFromEnv("CORE")
	if err != nil {
		return err
	}
	s, pause := core.Open(account, product), make(chan struct{})
	s.Hooks.At = func(at string) {
		if at == point {
			fmt.Println(at)
			<-pause // for ever
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(addressOf(listener, product.Table))
	return s.Run(context.Background(), listener, true)
}

func addressOf(l net.Listener, table string) string {
	return "http://" + l.Addr().String() + "/" + table
}

// Process is a product in a process of its own.
type Process struct {
	Client
	command *exec.Cmd
	said    *bufio.Scanner
	point   string
}

// StartProcess starts the product of Main, which will stop at a point, such as "resize/output".
// The process ends with the test.
func StartProcess(t *testing.T, account *azstore.Account, point string) *Process {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), stopsAt+"="+point, "CORE_PREFIX="+account.Prefix(),
		"AZURE_STORAGE_CONNECTION_STRING="+azuritetest.ConnectionString(t))
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	said := bufio.NewScanner(out)
	said.Scan()
	return &Process{Client{t, said.Text()}, command, said, point}
}

// Kill waits until the process has come to its point, and kills it.
func (p *Process) Kill() {
	p.Helper()
	if !p.said.Scan() || p.said.Text() != p.point {
		p.Fatalf("the process says %q, want %q", p.said.Text(), p.point)
	}
	_, _ = p.command.Process.Kill(), p.command.Wait()
}

// Service is a product in this process.
type Service[P any] struct {
	Client
	*core.Service[P]
}

// Start runs both roles until the test ends, in a hurry to clear up.
func Start[P any](t *testing.T, account *azstore.Account, product core.Product[P]) *Service[P] {
	t.Helper()
	return StartRoles(t, account, product, true, true)
}

// StartRoles is Start for some roles. Without a web role there is no URL.
func StartRoles[P any](t *testing.T, account *azstore.Account, product core.Product[P], web, works bool) *Service[P] {
	t.Helper()
	s := &Service[P]{Client{T: t}, core.Open(account, product)}
	var listener net.Listener
	if web {
		var err error
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		s.URL = addressOf(listener, product.Table)
	}
	s.Pace = 50 * time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, listener, works) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
	})
	return s
}

// Left are the rows, messages and blobs of the account, but for those of workers and of the
// upkeep's lease.
func (s *Service[P]) Left() (left []string) {
	s.Helper()
	for _, table := range []string{s.Table, "list", engine.InflightTable, engine.IdempotencyTable, "poison"} {
		pager := s.Account.Table(table).NewListEntitiesPager(nil)
		for pager.More() {
			page, err := pager.NextPage(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			for _, row := range page.Entities {
				left = append(left, table+": "+string(row))
			}
		}
	}
	for _, container := range []string{engine.SourcesContainer, engine.MediaContainer, "claims"} {
		for blob, err := range s.Blobs.List(s.Context(), container, "") {
			if err != nil {
				s.Fatal(err)
			}
			left = append(left, blob.Name)
		}
	}
	queues, err := s.Account.ListQueues(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, queue := range queues {
		found, err := s.Account.Queue(strings.TrimPrefix(queue, s.Account.Prefix())).GetProperties(s.Context(), nil)
		if err != nil {
			s.Fatal(err)
		}
		if n := *found.ApproximateMessagesCount; n > 0 {
			left = append(left, fmt.Sprint(queue, ": ", n, " messages"))
		}
	}
	return left
}

// Delete deletes subjects, the last there are, and waits until nothing is left.
func (s *Service[P]) Delete(ids ...engine.ID) {
	s.Helper()
	for _, id := range ids {
		s.Want(200, "DELETE", "/"+string(id), nil)
		s.Want(404, "GET", "/"+string(id), nil)
	}
	azuritetest.Eventually(s.T, 30*time.Second, func() error {
		if left := s.Left(); len(left) > 0 {
			return fmt.Errorf("left: %s", strings.Join(left, "\n"))
		}
		return nil
	})
}

// OneIsDoneAgain checks that some runs of a step had a lost attempt and one more, and all other
// runs of the subject one attempt, done.
func (s *Service[P]) OneIsDoneAgain(id engine.ID, step string) {
	s.Helper()
	view, err := s.Subjects.View(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	lost := 0
	for _, run := range view.Runs {
		attempts := run.AllAttempts()
		if last := attempts[len(attempts)-1]; last.Outcome != engine.OutcomeDone {
			s.Errorf("%s: %+v", run.Key, attempts)
		}
		again := len(attempts) == 2 && attempts[0].Outcome == engine.OutcomeLost && run.Key.Step == step
		if len(attempts) > 1 && !again {
			s.Errorf("%s: %+v", run.Key, attempts)
		}
		lost += len(attempts) - 1
	}
	if lost == 0 {
		s.Error("no attempt was lost")
	}
}
