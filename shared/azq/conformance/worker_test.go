package conformance_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
)

// greeting is the data of the kind that the check sends.
type greeting struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Stuck   bool    `json:"stuck"`
}

// settings are what a worker is told.
type settings struct {
	account           *azstore.Account
	queue             string
	visibility, pause time.Duration
	stall             time.Duration
	limit             int
}

func readSettings() settings {
	number := func(name string) int { return must(strconv.Atoi(os.Getenv(name))) }
	return settings{
		account: must(azstore.Open(azstore.Config{
			ConnectionString: os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), Prefix: os.Getenv("AZQ_PREFIX"),
		})),
		queue: os.Getenv("AZQ_QUEUE"), limit: number("AZQ_MAX_FAILURES"),
		visibility: time.Duration(number("AZQ_VISIBILITY")) * time.Second,
		pause:      time.Duration(number("AZQ_PAUSE")) * time.Second,
		stall:      time.Duration(number("AZQ_STALL")) * time.Second,
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Kind implements azq.Payload.
func (greeting) Kind() string { return "greet" }

// ours is a worker with this library.
func ours(ctx context.Context, s settings) {
	client := azq.Open(s.account, azq.Options{
		Queues: []azq.Spec{{
			Name: s.queue, Visibility: s.visibility, MaxFailures: s.limit, MaxIdlePoll: 200 * time.Millisecond,
		}},
		DeferPause: s.pause, FirstRetry: s.pause, MaxRetry: s.pause, RefreshPolicy: s.pause, StallAfter: s.stall,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	azq.Handle(client, greet)
	if err := client.Run(ctx); err != nil {
		panic(err)
	}
}

func greet(ctx context.Context, job *azq.Job[greeting]) error {
	if job.Data.Name == "" {
		return errors.New("no name to greet")
	}
	if job.Data.Stuck {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	work := time.Duration(job.Data.Seconds * float64(time.Second))
	for end := time.Now().Add(work); time.Now().Before(end); job.Progress() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// plain is a worker of few lines with the SDK alone, which keeps most of the rules, and makes
// one mistake. Its mistakes are those that such workers make.
type plain struct {
	settings
	queue, poison *azqueue.QueueClient
	rows          *aztables.Client
	mistake       string
}

// members are all that this worker knows of an item.
type members struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Failures    int             `json:"failures,omitempty"`
	Releases    int             `json:"releases,omitempty"`
	Snoozes     int             `json:"snoozes,omitempty"`
	LastError   string          `json:"lasterror,omitempty"`
	Data        json.RawMessage `json:"data"`
}

func careless(ctx context.Context, s settings, mistake string) {
	w := plain{
		settings: s, mistake: mistake, queue: s.account.Queue(s.queue),
		poison: s.account.Queue(azq.PoisonName(s.queue)), rows: s.account.Table(azq.PoisonTable),
	}
	for ctx.Err() == nil {
		if w.paused() {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		hidden := &azqueue.DequeueMessageOptions{VisibilityTimeout: new(int32(s.visibility.Seconds()))}
		got := must(w.queue.DequeueMessage(context.Background(), hidden))
		for _, m := range got.Messages {
			w.work(ctx, m)
		}
		if len(got.Messages) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func (w *plain) paused() bool {
	got := must(w.queue.GetProperties(context.Background(), nil))
	for name, value := range got.Metadata { // Go's HTTP client has changed the case of the name
		if strings.EqualFold(name, "paused") {
			return *value == "true" && w.mistake != "goes on"
		}
	}
	return false
}

func (w *plain) work(ctx context.Context, m *azqueue.DequeuedMessage) {
	item, err := azq.DecodeItem(*m.MessageText)
	if w.mistake == "reads no plain JSON" && strings.HasPrefix(*m.MessageText, "{") {
		err = azq.ErrMalformed
	}
	var g greeting
	switch {
	case errors.Is(err, azq.ErrNewerVersion), err == nil && w.mistake != "fails strangers" && w.foreign(item):
		item.Snoozes++
		w.update(m, item, w.pause)
		return
	case err != nil && w.mistake == "retries what it cannot read":
		w.update(m, item, w.pause)
		return
	case err != nil, item.Starts >= 10 && w.mistake != "counts no crashes":
		w.putAside(m, item, fmt.Sprint("malformed, or a crash loop: ", err))
		return
	}
	if w.mistake == "deletes first" {
		w.delete(m)
	}
	_ = json.Unmarshal(item.Data, &g)
	err = w.greet(ctx, m, g)
	switch {
	case errors.Is(err, context.Canceled):
		item.Releases++
		if w.mistake != "deaf" {
			w.update(m, item, 0)
		}
	case err == nil:
		w.delete(m)
	default:
		item.Fail(time.Now(), "plain", err)
		if item.Failures >= w.limit && w.mistake != "never poisons" {
			w.putAside(m, item, err.Error())
			return
		}
		w.update(m, item, w.pause)
	}
}

// foreign reports whether an item is for another worker.
func (w *plain) foreign(item azq.Item) bool {
	return item.Type() != "azq.work.greet.v1" || item.DataRef != ""
}

// greet is the handler. It renews the lease.
func (w *plain) greet(ctx context.Context, m *azqueue.DequeuedMessage, g greeting) error {
	if g.Name == "" {
		return errors.New("no name to greet")
	}
	left := time.Duration(g.Seconds * float64(time.Second))
	if g.Stuck {
		left = time.Hour
	}
	for began := time.Now(); left > 0; {
		if g.Stuck && time.Since(began) > w.stall && w.mistake != "renews by a timer" {
			return errors.New("no progress")
		}
		step := min(left, w.visibility/3)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(step):
			left -= step
		}
		if left > 0 && w.mistake != "never renews" {
			w.write(m, *m.MessageText, w.visibility)
		}
	}
	return nil
}

// update writes an item back, hidden for a while.
func (w *plain) update(m *azqueue.DequeuedMessage, item azq.Item, hide time.Duration) {
	text := *m.MessageText // of a newer CloudEvents
	if item.ID != "" {
		text = must(item.Encode())
	}
	if w.mistake == "keeps what it knows" {
		var known members
		raw, err := base64.StdEncoding.DecodeString(text)
		if err == nil && json.Unmarshal(raw, &known) == nil {
			text = base64.StdEncoding.EncodeToString(must(json.Marshal(known)))
		}
	}
	w.write(m, text, hide)
}

func (w *plain) write(m *azqueue.DequeuedMessage, text string, hide time.Duration) {
	options := &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(hide.Seconds()))}
	got, err := w.queue.UpdateMessage(context.Background(), *m.MessageID, *m.PopReceipt, text, options)
	if w.tolerable(err) {
		m.PopReceipt, m.MessageText = got.PopReceipt, &text
	}
}

func (w *plain) delete(m *azqueue.DequeuedMessage) {
	_, err := w.queue.DeleteMessage(context.Background(), *m.MessageID, *m.PopReceipt, nil)
	if !w.tolerable(err) && w.mistake == "fails what is gone" {
		w.mistake = ""
		w.putAside(m, must(azq.DecodeItem(*m.MessageText)), err.Error())
	}
}

// tolerable reports whether a request succeeded, and ends the program for a worker that does
// not know what a stale receipt is.
func (w *plain) tolerable(err error) bool {
	if err != nil && w.mistake == "dies of a stale receipt" {
		panic(err)
	}
	return err == nil
}

func (w *plain) putAside(m *azqueue.DequeuedMessage, item azq.Item, reason string) {
	text, err := item.Encode()
	if err != nil || item.ID == "" {
		text = *m.MessageText
	}
	row := must(json.Marshal(aztables.EDMEntity{
		Entity: aztables.Entity{PartitionKey: w.settings.queue, RowKey: *m.MessageID},
		Properties: map[string]any{
			"Reason": reason, "ItemId": item.ID, "Text": aztables.EDMBinary(text),
			"DequeueCount": aztables.EDMInt64(*m.DequeueCount),
		},
	}))
	if w.mistake == "deletes before the row" {
		w.delete(m)
		time.Sleep(300 * time.Millisecond)
	}
	must(w.rows.UpsertEntity(context.Background(), row, nil))
	if w.mistake != "sends no copy" {
		forever := &azqueue.EnqueueMessageOptions{TimeToLive: new(int32(-1))}
		must(w.poison.EnqueueMessage(context.Background(), text, forever))
	}
	w.delete(m)
}

// play is the program as a worker, if it was started as one.
func play() bool {
	role, mistake := os.Getenv("CONFORMANCE_WORKER"), os.Getenv("CONFORMANCE_MISTAKE")
	if role == "" {
		return false
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if role == "ours" {
		ours(ctx, readSettings())
	} else {
		careless(ctx, readSettings(), mistake)
	}
	return true
}
