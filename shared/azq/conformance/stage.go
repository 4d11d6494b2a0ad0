package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
)

// stage is a queue with its poison queue, and the worker on it. After the first request of the
// check itself that failed, every method does nothing and err says why.
type stage struct {
	*check
	ctx           context.Context
	queueName     string
	queue, poison *azqueue.QueueClient
	lease         time.Duration
	limit         int    // of failed attempts
	connection    string // for the worker, if not the account's
	program       *program
	err           error
}

// failed notes an error of the check itself.
func (s *stage) failed(err error) bool {
	if s.err == nil {
		s.err = err
	}
	return s.err != nil
}

// breaks notes that a rule is broken, and the worker's own end if that may be why.
func (s *stage) breaks(rule, format string, args ...any) {
	if s.err != nil {
		return
	}
	how := fmt.Sprintf(format, args...)
	if s.program != nil && s.program.over() {
		how += fmt.Sprintf("; the program has ended (%v): %s", s.program.cmd.ProcessState, s.program.tail())
	}
	s.check.breaks(rule, how)
}

// send puts a text into the queue and returns the id of the message.
func (s *stage) send(text string) string {
	if s.err != nil {
		return ""
	}
	sent, err := s.queue.EnqueueMessage(s.ctx, text, &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))})
	if s.failed(err) {
		return ""
	}
	return *sent.Messages[0].MessageID
}

// until asks until the answer is yes, ever more rarely, and reports whether it was in time. It
// gives up early when the worker has ended by itself.
func (s *stage) until(right func() bool) bool {
	for began := time.Now(); s.err == nil && time.Since(began) < s.worker.Patience; {
		over := s.program != nil && s.program.over()
		if right() {
			return s.err == nil
		}
		if over {
			return false
		}
		if sleep(s.ctx, min(max(time.Since(began)/20, 20*time.Millisecond), 200*time.Millisecond)) != nil {
			return !s.failed(s.ctx.Err())
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// length is the number of messages in the queue, hidden ones included.
func (s *stage) length() int {
	got, err := s.queue.GetProperties(s.ctx, nil)
	if s.failed(err) {
		return -1
	}
	return int(*got.ApproximateMessagesCount)
}

// peek returns the visible messages of a queue.
func (s *stage) peek(queue *azqueue.QueueClient) []*azqueue.PeekedMessage {
	got, err := queue.PeekMessages(s.ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: new(int32(azq.MaxBatch))})
	if s.failed(err) {
		return nil
	}
	return got.Messages
}

// working waits until the worker has received every message.
func (s *stage) working() bool {
	return s.until(func() bool { return len(s.peek(s.queue)) == 0 })
}

// take receives a message as another consumer does, or returns nil when none is visible.
func (s *stage) take() *azqueue.DequeuedMessage {
	if s.err != nil {
		return nil
	}
	options := &azqueue.DequeueMessageOptions{VisibilityTimeout: new(int32(longLease.Seconds()))}
	got, err := s.queue.DequeueMessage(s.ctx, options)
	if s.failed(err) || len(got.Messages) == 0 {
		return nil
	}
	return got.Messages[0]
}

// takeAll receives every message as soon as it is visible, by its id. The worker has been stopped.
func (s *stage) takeAll() map[string]*azqueue.DequeuedMessage {
	all := map[string]*azqueue.DequeuedMessage{}
	s.until(func() bool {
		for m := s.take(); m != nil; m = s.take() {
			all[*m.MessageID] = m
		}
		return s.length() == len(all)
	})
	return all
}

// row is a row of the poison table. What is missing is zero.
type row struct {
	id, reason, itemID string
	text               []byte
	dequeueCount       int64
}

// rows are the poison items of the queue by the id of the message.
func (s *stage) rows() map[string]row {
	rows := map[string]row{}
	filter := fmt.Sprintf("PartitionKey eq '%s'", s.queueName)
	pager := s.account.Table(azq.PoisonTable).NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})
	for s.err == nil && pager.More() {
		page, err := pager.NextPage(s.ctx)
		if s.failed(err) {
			return nil
		}
		for _, raw := range page.Entities {
			var e aztables.EDMEntity
			if s.failed(json.Unmarshal(raw, &e)) {
				return nil
			}
			r := row{id: e.RowKey}
			r.reason, _ = e.Properties["Reason"].(string)
			r.itemID, _ = e.Properties["ItemId"].(string)
			text, _ := e.Properties["Text"].(aztables.EDMBinary)
			count, _ := e.Properties["DequeueCount"].(aztables.EDMInt64)
			r.text, r.dequeueCount = text, int64(count)
			rows[r.id] = r
		}
	}
	return rows
}

// untouched says that a rule is broken if there are poison items.
func (s *stage) untouched(rule string) {
	for _, r := range s.rows() {
		s.breaks(rule, "item %q is poison: %s", r.itemID, r.reason)
	}
}

// program is a run of the worker.
type program struct {
	cmd   *exec.Cmd
	out   bytes.Buffer // read after done
	ended chan struct{}
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// tail is the end of what an ended program has printed.
func (p *program) tail() string {
	text := strings.TrimSpace(p.out.String())
	return text[max(0, len(text)-400):]
}

// start runs the worker on the queue.
func (s *stage) start() {
	if s.err != nil {
		return
	}
	p := &program{cmd: exec.Command(s.worker.Command[0], s.worker.Command[1:]...), ended: make(chan struct{})}
	p.cmd.Dir = s.worker.Dir
	p.cmd.Env = append(append(os.Environ(), s.worker.Env...), "AZQ_QUEUE="+s.queueName,
		"AZQ_VISIBILITY="+seconds(s.lease), "AZQ_PAUSE="+seconds(pause), "AZQ_MAX_FAILURES="+strconv.Itoa(s.limit),
		"AZQ_STALL="+seconds(s.worker.Visibility))
	if s.connection != "" {
		p.cmd.Env = append(p.cmd.Env, "AZURE_STORAGE_CONNECTION_STRING="+s.connection)
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = &p.out, &p.out, time.Second
	if s.failed(p.cmd.Start()) {
		return
	}
	s.program = p
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState says how it ended
	}()
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// kill ends the worker without a warning.
func (s *stage) kill() {
	s.signal(os.Kill)
	s.ends()
}

// stop asks the worker to drain and reports whether it ended in time.
func (s *stage) stop() bool {
	s.signal(syscall.SIGTERM)
	return s.ends()
}

// ends waits for the end of the worker and reports whether it ended in time.
func (s *stage) ends() bool {
	p := s.program
	if p == nil {
		return true
	}
	select {
	case <-p.ended:
	case <-time.After(s.worker.Patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return false
	}
	if s.worker.Output != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintf(s.worker.Output, "--- %s\n%s", s.queueName, p.out.Bytes())
	}
	s.program = nil
	return true
}

func (s *stage) signal(how os.Signal) {
	if s.program == nil {
		return
	}
	if err := s.program.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.failed(err)
	}
}

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
