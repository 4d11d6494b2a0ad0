package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azq/azqops"
	"github.com/cutroom/cutroom/shared/azq/azqtest"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// terminal runs the built command in a folder outside of the tree, without the environment of
// the tests.
type terminal struct {
	t       *testing.T
	binary  string
	account *azstore.Account
	secret  string
	env     []string // beside the secret
}

func open(t *testing.T) terminal {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "azq")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return terminal{t, binary, azuritetest.Account(t), azuritetest.ConnectionString(t), nil}
}

// try runs the command with an answer to what it asks.
func (c terminal) try(answer string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(c.t.Context(), c.binary, append([]string{"--prefix=" + c.account.Prefix()}, args...)...)
	cmd.Dir, cmd.Env = c.t.TempDir(), append(c.env, "AZURE_STORAGE_CONNECTION_STRING="+c.secret)
	cmd.Stdin = strings.NewReader(answer)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err = cmd.Run()
	return out.String(), complaints.String(), err
}

func (c terminal) run(args ...string) string {
	c.t.Helper()
	stdout, stderr, err := c.try("", args...)
	if err != nil {
		c.t.Fatalf("azq %v: %v\n%s", args, err, stderr)
	}
	return stdout
}

// items runs a command that lists Ts.
func items[T any](c terminal, args ...string) []T {
	c.t.Helper()
	var list struct{ Items []T }
	text := c.run(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.Items == nil {
		c.t.Fatalf("azq %v: %v: %s", args, err, text)
	}
	return list.Items
}

func (c terminal) queue(name string) azqops.Queue {
	c.t.Helper()
	for _, q := range items[azqops.Queue](c, "queues") {
		if q.Name == name {
			return q
		}
	}
	c.t.Fatalf("%s is not listed", name)
	return azqops.Queue{}
}

// What an operator does to the queues of a worker whose declarations the command does not
// know: send, see poison, send it again, pause, look, empty.
func TestAWorkersQueues(t *testing.T) {
	t.Parallel()
	c := open(t)
	queues := azqtest.Open(t, c.account, azq.Spec{Name: "mail", Kinds: []string{"letter"}, Pool: "light", Laned: true})
	var address atomic.Bool
	handler := &azqtest.Recorder{Next: func(context.Context, *azq.RawJob) error {
		if !address.Load() {
			return azq.Permanent(errors.New("no such \x1b[31maddress"))
		}
		return nil
	}}
	worker := azqtest.Start(t, queues, map[string]azq.Handler{"letter": handler})

	sent := c.run("send", "mail", "letter", "--id=welcome", `--data={"to":"Ada"}`, "--subject=customer-7")
	azqtest.WaitPoison(t, queues, 1)
	poison := items[azq.Poisoned](c, "poison")
	table := c.run("poison")
	if sent != "welcome\n" || len(poison) != 1 || !strings.Contains(table, poison[0].ID) || !strings.Contains(table, "customer-7") ||
		!strings.Contains(table, "no such") || strings.Contains(table, "\x1b") {
		t.Errorf("sent %q, poison %+v\n%s", sent, poison, table)
	}
	address.Store(true)
	c.run("redrive", poison[0].ID)
	azqtest.WaitEmpty(t, queues.Queue("mail"))
	if left := items[azq.Poisoned](c, "poison"); len(left) != 0 || len(handler.IDs()) != 2 {
		t.Errorf("after the redrive: poison %+v, handled %v", left, handler.IDs())
	}

	c.run("pause", "mail")
	worker.WaitCounts(t, "mail", func(s azq.QueueStats) bool { return s.Paused })
	c.run("send", "mail", "letter", "--id=second", "--after=1s")
	c.run("send", "mail", "letter", "--id=third", "--namespace=shop")
	azuritetest.Eventually(t, 20*time.Second, func() error {
		if text := c.run("peek", "mail"); !strings.Contains(text, "azq.work.letter.v1") || !strings.Contains(text, "shop.work.letter.v1") {
			return errors.New(text)
		}
		return nil
	})
	if q := c.queue("mail-3"); !q.Paused { // a lane
		t.Errorf("%+v", q)
	}
	c.run("visibility", "mail", "90s")
	if q := c.queue("mail"); q.Length != 2 || !q.Paused || q.VisibilitySeconds != 90 || len(handler.IDs()) != 2 {
		t.Errorf("%+v, handled %v", q, handler.IDs())
	}
	if text := c.run("queues"); !strings.Contains(text, "1m30s") || !strings.Contains(text, "mail-poison") {
		t.Error(text)
	}
	c.run("resume", "mail")
	azqtest.WaitEmpty(t, queues.Queue("mail"))
	if len(handler.IDs()) != 4 {
		t.Errorf("handled %v", handler.IDs())
	}
}

// Messages are removed for who says so, those in the other lanes, too.
func TestClearAsks(t *testing.T) {
	t.Parallel()
	c := open(t)
	azqtest.Open(t, c.account, azq.Spec{Name: "mail", Laned: true}, azq.Spec{Name: "post"})
	for _, way := range []struct {
		answer string
		flags  []string
		left   int64
	}{{"", nil, 1}, {"n\n", nil, 1}, {"y\n", nil, 0}, {"", []string{"--yes"}, 0}} {
		c.run("clear", "mail", "post", "--yes")
		c.run("send", "post", "letter")
		c.run("send", "mail-2", "letter")
		_, stderr, err := c.try(way.answer, append([]string{"clear", "mail", "post"}, way.flags...)...)
		for _, queue := range []string{"post", "mail-2"} {
			if left := c.queue(queue).Length; left != way.left || (err == nil) != (left == 0) {
				t.Errorf("answer %q, %v: %d messages are left in %s, %v\n%s", way.answer, way.flags, left, queue, err, stderr)
			}
		}
	}
}

// Mistakes are told on one line, without the account's key, and the exit code is not 0.
func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	c := open(t)
	azqtest.Open(t, c.account, azq.Spec{Name: "mail"})
	mistakes := map[string]string{
		"pause post":                        `there is no such queue: "post"`,
		"peek post":                         `there is no such queue: "post"`,
		"redrive mail~7 mail~8":             `"mail~8"`,
		"send post letter":                  `there is no such queue: "post"`,
		"queues --account=other":            "set one of them",
		"queues --prefix=No":                "prefix",
		"send mail letter --no":             "--no",
		"send mail letter --namespace=Shop": "Shop",
		"send mail Letter":                  "Letter",
		"send mail letter --data={":         "data",
		"visibility mail 90":                "90",
	}
	var wait sync.WaitGroup
	for line, want := range mistakes {
		wait.Go(func() {
			_, stderr, err := c.try("", strings.Fields(line)...)
			if err == nil || !strings.Contains(stderr, want) || !strings.Contains(stderr, "azq: ") || strings.Contains(stderr, c.secret[50:80]) {
				t.Errorf("azq %s: %v\n%s", line, err, stderr)
			}
		})
	}
	wait.Wait()
	c.secret = ""
	if _, stderr, err := c.try("", "queues"); err == nil || !strings.Contains(stderr, "AZURE_STORAGE_CONNECTION_STRING") {
		t.Errorf("%v\n%s", err, stderr)
	}
}

// The emulator is where the variables say that the roles read: beside another one on the usual
// ports a command must not meet that.
func TestEmulatorOnOtherPorts(t *testing.T) {
	t.Parallel()
	c := open(t)
	if err := azq.Open(c.account, azq.Options{Queues: []azq.Spec{{Name: "mail"}}}).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, port := range regexp.MustCompile(`(Blob|Queue|Table)Endpoint=[^;]*:([0-9]+)/`).FindAllStringSubmatch(c.secret, -1) {
		c.env = append(c.env, "AZURITE_"+strings.ToUpper(port[1])+"_PORT="+port[2])
	}
	c.secret = azstore.DevelopmentStorage
	if out := c.run("queues"); len(c.env) != 3 || !strings.Contains(out, "mail") {
		t.Errorf("with %v:\n%s", c.env, out)
	}
}
