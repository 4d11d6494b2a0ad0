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
	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

var _ = register(programs, "three-workers", threeWorkers)

var greetQueue = azq.Spec{Name: "greetings", Kinds: []string{"greet"}, Pool: "light", MaxIdlePoll: 100 * time.Millisecond}

// greeting is the data of an item, with bytes that no text may hold (Q19).
type greeting struct {
	Name    string `json:"name"`
	Picture []byte `json:"picture"`
}

// unknownMember is what one worker writes into an item and the others do not know (Q6).
const unknownMember = `"region":{"b":1,"a":"é<&>"}`

// threeWorkers lets an old worker, a new worker and one in another language share a
// queue (Q1, Q6), whose messages carry any bytes (Q19).
func threeWorkers(s *Stage) {
	s.Prepare(greetQueue)
	picture := make([]byte, 256)
	for i := range picture {
		picture[i] = byte(i)
	}
	node := s.startNode()
	defer node.kill()
	sendGreeting(s.ctx, s, greetQueue.Name, 1, "old greeting", picture)
	sendGreeting(s.ctx, s, greetQueue.Name, 2, "new greeting", picture)
	said := func(line string) bool { return slices.Contains(node.said.read(), line) }
	s.until("the Node worker saw both", func() (bool, error) { return said("done old greeting") && said("put back new greeting"), nil })
	s.Claim(!said("done new greeting"))

	var done diary
	var seen azq.Item
	var data greeting
	for version, worker := range []string{"old worker", "new worker"} {
		spec := greetQueue
		if version == 1 {
			spec.MaxIdlePoll = 20 * time.Millisecond // the new worker looks more often, so that the scene is short
		}
		defer s.Consume(s.ctx, worker, spec, azq.Options{
			Version: version + 1, DeferPause: time.Second,
			Handlers: map[string]azq.Handler{"greet": azq.HandlerOf(func(ctx context.Context, job *azq.RawJob, g greeting) error {
				if job.Item.ID == "new greeting" {
					seen, data = job.Item, g // once: no other worker takes it
				}
				done.note(worker + ": " + job.Item.ID)
				return sleep(ctx, 50*time.Millisecond)
			})},
		})()
	}
	done.has(s, 1)
	s.Claim(slices.Equal(done.read(), []string{"new worker: new greeting"}))
	s.Claim(bytes.Contains(get(seen.JSON()), []byte(unknownMember)) && seen.Snoozes > 0 && seen.Failures == 0, seen.Snoozes)
	s.Claim(bytes.Equal(data.Picture, picture))
	sharedByAll(s, node, &done)
	careless(s)
}

// sharedByAll gives the three workers twelve greetings.
func sharedByAll(s *Stage, node *foreigner, done *diary) {
	const more = 12
	for _, name := range numbered("greeting", more) {
		sendGreeting(Quiet(s.ctx), s, greetQueue.Name, 1, name, nil)
	}
	counts := map[string]int{}
	all := func() int { return counts["Node worker"] + counts["old worker"] + counts["new worker"] }
	s.until("all greetings are done", func() (bool, error) {
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
		return all() >= more, nil
	})
	s.Claim(all() == more, more, counts["Node worker"], counts["old worker"], counts["new worker"])
}

// careless shows what the format is for, at a queue of its own: a worker that writes
// back only what it knows (Q6), and a text that goes as it is (Q19).
func careless(s *Stage) {
	s.Prepare(plainQueue)
	queue := s.Account("careless worker").Queue(plainQueue.Name)
	sendGreeting(Quiet(s.ctx), s, plainQueue.Name, 2, "new greeting", nil)
	m := receive(s, queue)
	var known struct {
		ID   string          `json:"id"`
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	must(json.Unmarshal(get(base64.StdEncoding.DecodeString(*m.MessageText)), &known))
	rewritten := base64.StdEncoding.EncodeToString(get(json.Marshal(known)))
	get(queue.UpdateMessage(s.ctx, *m.MessageID, *m.PopReceipt, rewritten, &azqueue.UpdateMessageOptions{VisibilityTimeout: to.Ptr(int32(0))}))
	raw := get(base64.StdEncoding.DecodeString(receiveAndDelete(s, queue)))
	s.Claim(!bytes.Contains(raw, []byte("region")), raw)

	const noXML = "{\"name\":\"\uFFFF\"}"
	encoded := base64.StdEncoding.EncodeToString([]byte(noXML))
	back := map[string]string{}
	for _, text := range []string{noXML, encoded} {
		_, err := queue.EnqueueMessage(s.ctx, text, nil)
		if _, _, answered := azstore.Describe(err); answered {
			continue // refused
		}
		must(err)
		back[text] = receiveAndDelete(s, queue)
	}
	s.Claim(back[noXML] != noXML && back[encoded] == encoded, noXML, back[noXML])
}

// receive receives a message with the bare SDK.
func receive(s *Stage, queue *azqueue.QueueClient) *azqueue.DequeuedMessage {
	got := get(queue.DequeueMessage(s.ctx, nil))
	if len(got.Messages) != 1 {
		must(fmt.Errorf("%d messages, want 1", len(got.Messages)))
	}
	return got.Messages[0]
}

func receiveAndDelete(s *Stage, queue *azqueue.QueueClient) string {
	m := receive(s, queue)
	get(queue.DeleteMessage(s.ctx, *m.MessageID, *m.PopReceipt, nil))
	return *m.MessageText
}

// sendGreeting writes a message as a program would that is not ours.
func sendGreeting(ctx context.Context, s *Stage, queue string, version int, id string, picture []byte) {
	data := get(json.Marshal(greeting{Name: "Ada", Picture: picture}))
	text := fmt.Sprintf(`{"specversion":"1.0","id":%q,%s,"type":%q,"data":%s}`, id, unknownMember, azq.Item{Kind: "greet", Version: version}.Type(), data)
	get(s.Account("producer").Queue(queue).EnqueueMessage(ctx, base64.StdEncoding.EncodeToString([]byte(text)), nil))
}

// foreigner is a worker in another language, a process.
type foreigner struct {
	cmd    *exec.Cmd
	window *http.Server
	read   sync.WaitGroup
	said   diary
}

// startNode starts e2e/foreign/worker.mjs. Its requests pass a proxy, which tells them.
func (s *Stage) startNode() *foreigner {
	dir := filepath.Join(get(stack.Root()), "e2e", "foreign")
	if _, err := os.Stat(filepath.Join(dir, "node_modules/@azure/data-tables")); err != nil {
		must(errors.New("the libraries of the Node worker are not installed: run 'npm ci' in e2e/foreign"))
	}
	window, connection := s.window("Node worker")
	n := &foreigner{cmd: exec.CommandContext(s.ctx, "node", "worker.mjs"), window: window}
	n.cmd.Dir, n.cmd.Stderr = dir, os.Stderr
	n.cmd.Env = append(os.Environ(), "AZURE_STORAGE_CONNECTION_STRING="+connection,
		"AZQ_PREFIX="+s.cfg.Prefix, "AZQ_QUEUE="+greetQueue.Name, "AZQ_PAUSE=1")
	out := get(n.cmd.StdoutPipe())
	if err := n.cmd.Start(); err != nil {
		_ = window.Close()
		must(fmt.Errorf("start the Node worker: %w", err))
	}
	n.read.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n.said.note(lines.Text())
		}
	})
	return n
}

func (n *foreigner) kill() {
	_ = n.cmd.Process.Kill() // it may have ended
	n.read.Wait()
	_ = n.cmd.Wait()
	_ = n.window.Close()
}

// window opens a proxy before the queues through which requests of another program are
// told. It returns the connection string that leads there.
func (s *Stage) window(actor string) (*http.Server, string) {
	const name = "QueueEndpoint="
	_, rest, found := strings.Cut(s.cfg.ConnectionString, name)
	if !found {
		must(errors.New("the connection string names no QueueEndpoint"))
	}
	endpoint, _, _ := strings.Cut(rest, ";")
	target := get(url.Parse(endpoint))
	listener := get(net.Listen("tcp", "127.0.0.1:0"))
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host // the path has the account already
		},
		Transport: roundTrip{s.own(actor, true)},
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	here := *target
	here.Host = listener.Addr().String()
	return server, strings.Replace(s.cfg.ConnectionString, name+endpoint, name+here.String(), 1)
}

// roundTrip is a tap for net/http.
type roundTrip struct{ *tap }

// RoundTrip implements http.RoundTripper.
func (t roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.RequestURI = ""
	return t.Do(r)
}
