package scenes

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/e2e/stack"
	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
	"github.com/cutroom/cutroom/shared/workqueue/consumer"
)

var greetQueue = workqueue.Spec{Name: "greetings", Steps: []string{"greet"}, Pool: "light", MaxIdlePoll: 100 * time.Millisecond}

// greeting is the data of an item, with bytes that no text may hold (Q19).
type greeting struct {
	Name    string `json:"name"`
	Picture []byte `json:"picture"`
}

// unknownMember is what one worker writes into an item and the others do not know (Q6).
const unknownMember = `"region":{"b":1,"a":"é<&>"}`

// threeWorkers lets an old worker, a new worker and one in another language share a
// queue (Q1, Q6), whose messages carry any bytes (Q19).
func threeWorkers(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, greetQueue); err != nil {
		return err
	}
	picture := everyByte()
	s.Say("A worker in another language, Node, shares the queue. It knows nothing of our code, only the format of messages. It gets a greeting of version 1, and one of version 2 that has a member which it does not know, and a picture of 256 different bytes.")
	node, err := s.startNode(ctx)
	if err != nil {
		return err
	}
	defer node.kill()
	for version, name := range []string{"old greeting", "new greeting"} {
		if err := sendGreeting(ctx, s, version+1, name, picture); err != nil {
			return err
		}
	}
	if err := node.says(ctx, "done old greeting", "put back new greeting"); err != nil {
		return err
	}
	s.Claim(!slices.Contains(node.said.read(), "done new greeting"), "the Node worker has done the old greeting, and put the new one back: it is for somebody newer")

	s.Say("An old worker of ours joins, which knows version 1 only, and then a new one. They share nothing but the queue, and nobody told them of each other.")
	var done diary
	var seen workitem.Item
	var data greeting
	work := func(worker string) consumer.Handler {
		return consumer.Handle(func(ctx context.Context, job *consumer.Job, g greeting) error {
			if job.Item.ID == "new greeting" {
				seen, data = job.Item, g // once: nobody else takes it
			}
			done.note(worker + ": " + job.Item.ID)
			return sleep(ctx, 50*time.Millisecond)
		})
	}
	for version, worker := range []string{"old worker", "new worker"} {
		spec := greetQueue
		if version == 1 {
			spec.MaxIdlePoll = 20 * time.Millisecond // the new worker looks more often, so that nobody waits long for it
		}
		stop, err := s.Consume(ctx, worker, []workqueue.Spec{spec}, consumer.Options{
			Pools: map[string]int{"light": 1}, Version: version + 1, PutBack: time.Second,
			Handlers: map[string]consumer.Handler{"greet": work(worker)},
		})
		if err != nil {
			return err
		}
		defer stop()
	}
	if err := done.has(ctx, 1); err != nil {
		return err
	}
	s.Claim(slices.Equal(done.read(), []string{"new worker: new greeting"}), "only the new worker has done the new greeting")
	raw, err := seen.JSON()
	if err != nil {
		return err
	}
	s.Claim(bytes.Contains(raw, []byte(unknownMember)) && seen.Snoozes > 0 && seen.Failures == 0, "the unknown member is as it was, byte for byte, although the item was put back %d times, at no cost", seen.Snoozes)
	s.Claim(bytes.Equal(data.Picture, picture), "so are all 256 bytes of the picture, which JSON carries as base64")
	return sharedByAll(ctx, s, node, &done)
}

// careless shows what the format is for, at a queue of its own: a worker that writes
// back only what it knows (Q6), and a text that goes as it is (Q19).
func careless(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, plainQueue); err != nil {
		return err
	}
	queue := s.Account("careless worker").Queue(plainQueue.Name)
	s.Say("What is kept byte for byte is easily lost. A careless worker reads an item into a struct of the members that it knows, and writes that back.")
	if err := sendGreetingTo(Quiet(ctx), s, plainQueue.Name, 2, "new greeting", nil); err != nil {
		return err
	}
	text, err := overTheWire(ctx, queue, func(text string) (string, error) {
		var known struct {
			ID   string          `json:"id"`
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(raw, &known)
		}
		if err == nil {
			raw, err = json.Marshal(known)
		}
		return base64.StdEncoding.EncodeToString(raw), err
	})
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	s.Claim(!bytes.Contains(raw, []byte("region")), "the region is gone, and nobody was told: what comes back is %s", raw)

	s.Say("And why is the text of a message base64? On the wire it is XML, which has no character U+FFFF, and JSON may have one. It is sent as it is first, and then as base64.")
	const noXML = "{\"name\":\"\uFFFF\"}"
	back := map[string]string{}
	for _, text := range []string{noXML, base64.StdEncoding.EncodeToString([]byte(noXML))} {
		if _, err := queue.EnqueueMessage(ctx, text, nil); err != nil {
			if _, _, answered := azstorage.Describe(err); !answered {
				return err
			}
			continue // refused
		}
		if back[text], err = overTheWire(ctx, queue, nil); err != nil {
			return err
		}
	}
	as := base64.StdEncoding.EncodeToString([]byte(noXML))
	s.Claim(back[noXML] != noXML && back[as] == as, "as it is, %+q came back as %+q; as base64 it came back whole", noXML, back[noXML])
	return nil
}

// overTheWire receives a message with the bare SDK and deletes it. With rewrite it
// writes another text into it first, and receives that.
func overTheWire(ctx context.Context, queue *azqueue.QueueClient, rewrite func(string) (string, error)) (string, error) {
	got, err := queue.DequeueMessage(ctx, nil)
	if err != nil {
		return "", err
	}
	if len(got.Messages) != 1 {
		return "", fmt.Errorf("%d messages, want 1", len(got.Messages))
	}
	m := got.Messages[0]
	if rewrite == nil {
		_, err := queue.DeleteMessage(ctx, *m.MessageID, *m.PopReceipt, nil)
		return *m.MessageText, err
	}
	text, err := rewrite(*m.MessageText)
	if err != nil {
		return "", err
	}
	if _, err := queue.UpdateMessage(ctx, *m.MessageID, *m.PopReceipt, text, &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))}); err != nil {
		return "", err
	}
	return overTheWire(ctx, queue, nil)
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// sharedByAll gives the three workers twelve greetings.
func sharedByAll(ctx context.Context, s *Stage, node *foreigner, done *diary) error {
	const more = 12
	s.Say("Now %d greetings of version 1, which all three can do. Any worker that has time takes the next.", more)
	for _, name := range numbered("greeting", more) {
		if err := sendGreeting(Quiet(ctx), s, 1, name, nil); err != nil {
			return err
		}
	}
	counts := map[string]int{}
	if err := until(ctx, "all greetings are done", func() (bool, error) {
		clear(counts)
		for _, line := range append(done.read(), node.said.read()...) {
			worker, item, ours := strings.Cut(line, ": ")
			if !ours {
				worker, item = "Node worker", strings.TrimPrefix(line, "done ")
			}
			if strings.HasPrefix(item, "greeting ") {
				counts[worker]++
			}
		}
		return counts["Node worker"]+counts["old worker"]+counts["new worker"] >= more, nil
	}); err != nil {
		return err
	}
	s.Claim(counts["Node worker"]+counts["old worker"]+counts["new worker"] == more, "all %d are done: %d by the Node worker, %d by the old one, %d by the new one",
		more, counts["Node worker"], counts["old worker"], counts["new worker"])
	s.Means("An implementation is replaced while it works: start the new workers, let both run, stop the old ones.")
	return careless(ctx, s)
}

// sendGreeting writes a message as a program would that is not ours.
func sendGreeting(ctx context.Context, s *Stage, version int, id string, picture []byte) error {
	return sendGreetingTo(ctx, s, greetQueue.Name, version, id, picture)
}

func sendGreetingTo(ctx context.Context, s *Stage, queue string, version int, id string, picture []byte) error {
	data, err := json.Marshal(greeting{Name: "Ada", Picture: picture})
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`{"specversion":"1.0","id":%q,%s,"type":%q,"data":%s}`, id, unknownMember, workitem.Item{Step: "greet", Version: version}.Type(), data)
	_, err = s.Account("producer").Queue(queue).EnqueueMessage(ctx, base64.StdEncoding.EncodeToString([]byte(text)), nil)
	return err
}

// foreigner is a worker in another language, a process.
type foreigner struct {
	cmd    *exec.Cmd
	window *http.Server
	read   sync.WaitGroup
	said   diary
}

// startNode starts e2e/foreign/worker.mjs. Its requests pass a proxy, which tells them.
func (s *Stage) startNode(ctx context.Context) (*foreigner, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, fmt.Errorf("start the Node worker: %w", err)
	}
	dir := filepath.Join(root, "e2e", "foreign")
	if _, err := os.Stat(filepath.Join(dir, "node_modules/@azure/storage-queue")); err != nil {
		return nil, errors.New("start the Node worker: its library is not installed: run 'npm ci' in e2e/foreign")
	}
	window, connection, err := s.window("Node worker")
	if err != nil {
		return nil, fmt.Errorf("start the Node worker: %w", err)
	}
	n := &foreigner{cmd: exec.CommandContext(ctx, "node", "worker.mjs", s.cfg.Prefix+greetQueue.Name, "1"), window: window}
	n.cmd.Dir, n.cmd.Stderr = dir, os.Stderr
	n.cmd.Env = append(os.Environ(), "AZURE_STORAGE_CONNECTION_STRING="+connection)
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		_ = window.Close()
		return nil, fmt.Errorf("start the Node worker: %w", err)
	}
	n.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n.said.note(lines.Text())
		}
	})
	return n, nil
}

func (n *foreigner) kill() {
	_ = n.cmd.Process.Kill() // it may have ended
	n.read.Wait()
	_ = n.cmd.Wait()
	_ = n.window.Close()
}

// says waits until the program has printed all these lines.
func (n *foreigner) says(ctx context.Context, want ...string) error {
	return until(ctx, fmt.Sprintf("the Node worker says %q", want), func() (bool, error) {
		got := n.said.read()
		for _, line := range want {
			if !slices.Contains(got, line) {
				return false, nil
			}
		}
		return true, nil
	})
}

// window opens a proxy before the queues through which requests of another program are
// told. It returns the connection string that leads there.
func (s *Stage) window(actor string) (*http.Server, string, error) {
	const name = "QueueEndpoint="
	_, rest, found := strings.Cut(s.cfg.ConnectionString, name)
	endpoint, _, _ := strings.Cut(rest, ";")
	target, err := url.Parse(endpoint)
	if !found || err != nil {
		return nil, "", errors.New("the connection string names no QueueEndpoint")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	through := s.tapOf(actor, true, s.cfg)
	through.account = s.Account(actor)
	context.AfterFunc(s.ending, through.close)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host // the path has the account already
		},
		Transport: roundTrip{through},
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	here := *target
	here.Host = listener.Addr().String()
	return server, strings.Replace(s.cfg.ConnectionString, name+endpoint, name+here.String(), 1), nil
}

// roundTrip is a tap for net/http.
type roundTrip struct{ *tap }

// RoundTrip implements http.RoundTripper.
func (t roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.RequestURI = ""
	return t.Do(r)
}
