package lab

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/shared/azq"
)

// duplicate puts a message that is visible there again; when none is, it waits for
// the next that is sent: an idle stack receives a message within moments.
func (b *bench) duplicate(r *http.Request, asked client.LabDuplicate) (client.LabDone, error) {
	var names []string
	for _, spec := range b.queues.Specs() {
		if asked.Queue == nil || *asked.Queue == spec.Name || *asked.Queue == spec.Base() {
			names = append(names, spec.Name)
		}
	}
	if len(names) == 0 {
		return client.LabDone{}, refuse(http.StatusNotFound, "queue_not_found", "There is no such queue of steps.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	for _, name := range names {
		done, found, err := b.putAgain(ctx, name)
		if err != nil {
			return client.LabDone{}, err
		}
		if found {
			return client.LabDone{Duplicated: &done, Says: fmt.Sprintf("A message of queue %s (%s of video %s) is there twice.", done.Queue, done.Step, done.Subject)}, nil
		}
	}
	until := time.Now().Add(armedFor)
	b.mu.Lock()
	b.armed = until
	b.mu.Unlock()
	b.proxy.Repeat(until, func(queue, text string) bool {
		_, err := azq.DecodeItem(text)
		return err == nil && slices.Contains(names, strings.TrimPrefix(queue, b.account.Name("")))
	}, func(queue, text string) {
		b.mu.Lock()
		b.armed = time.Time{}
		b.mu.Unlock()
		b.note(strings.TrimPrefix(queue, b.account.Name("")), text)
	})
	return client.LabDone{Until: &until, Says: fmt.Sprintf("No message waits. The next one that is sent within %.0f s will be delivered twice.", armedFor.Seconds())}, nil
}

// putAgain sends the first visible message of a queue once more. Its item is that
// of the first, with its id: two deliveries of one request.
func (b *bench) putAgain(ctx context.Context, queue string) (done client.LabDuplicated, found bool, err error) {
	seen, err := b.queues.Queue(queue).Peek(ctx, 1)
	if err != nil || len(seen) == 0 || seen[0].Err != nil {
		return client.LabDuplicated{}, false, err
	}
	if err := b.queues.SendItem(ctx, queue, seen[0].Item, 0); err != nil {
		return client.LabDuplicated{}, false, fmt.Errorf("put a message of queue %s there again: %w", queue, err)
	}
	return b.note(queue, seen[0].Text), true, nil
}

// note remembers what is there twice.
func (b *bench) note(queue, text string) client.LabDuplicated {
	item, _ := azq.DecodeItem(text) // it was decoded before
	done := client.LabDuplicated{Queue: queue, Step: item.Kind, Subject: item.Subject, At: time.Now().UTC()}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.twice = append([]client.LabDuplicated{done}, b.twice...)
	b.twice = b.twice[:min(len(b.twice), keptDuplicates)]
	return done
}
