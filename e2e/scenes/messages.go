package scenes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azstorage"
	"github.com/cutroom/cutroom/shared/workitem"
	"github.com/cutroom/cutroom/shared/workqueue"
)

var plainQueue = workqueue.Spec{Name: "work"}

// tooLarge shows the limit of a message and the claim check (Q9), and what a message
// lives for when nobody chooses.
func tooLarge(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, plainQueue); err != nil {
		return err
	}
	account := s.Account("producer")
	s.Say("A message of 70,000 bytes, sent with the bare SDK. The service takes 64 KiB; in the paper's time it took 8.")
	_, err := account.Queue(plainQueue.Name).EnqueueMessage(ctx, strings.Repeat("x", 70_000), nil)
	status, code, _ := azstorage.Describe(err)
	s.Claim(status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest, "it is refused: %d %s", status, code)

	s.Say("The same amount of data in a work item of ours. It goes to a blob first, and the message carries the blob's name: a claim check.")
	script := strings.Repeat("a line of the script\n", 3500)
	producer := workqueue.OpenAll(account, []workqueue.Spec{plainQueue}).Queue(plainQueue.Name)
	item, err := workitem.New("print", "film-1", "film-1.print", map[string]string{"script": script})
	if err != nil {
		return err
	}
	if err := producer.Send(ctx, item, 0); err != nil {
		return err
	}
	s.Means("The blob is written before the message. In the other order a worker could get the message and find no blob. A producer that dies between the two leaves a blob that nobody needs, which the janitor removes one day.")
	s.Say("A worker receives the message, and fetches the blob that it names.")
	lease, err := s.Desk("worker", plainQueue).take(ctx)
	if err != nil {
		return err
	}
	small, err := lease.Item()
	if err != nil {
		return err
	}
	s.Claim(small.DataRef != "" && small.Data == nil, "the message has no data, only the name %s", small.DataRef)
	whole, err := lease.Open(ctx)
	if err != nil {
		return err
	}
	data, err := workitem.DecodeData[map[string]string](whole)
	if err != nil {
		return err
	}
	s.Claim(data["script"] == script, "the worker has all %d bytes", len(script))
	if err := lease.Complete(ctx); err != nil {
		return err
	}
	return timeToLive(ctx, s, producer)
}

// timeToLive compares the service's default with ours.
func timeToLive(ctx context.Context, s *Stage, producer *workqueue.Queue) error {
	s.Say("How long does a message live when nobody takes it? Without a choice 7 days, and then it is gone without a trace. We choose: for ever.")
	bare := s.Account("bare SDK").Queue(plainQueue.Name)
	if _, err := bare.EnqueueMessage(ctx, "dGhpcyBvbmUgZXhwaXJlcw==", nil); err != nil {
		return err
	}
	item, err := workitem.New("print", "", "stays", nil)
	if err != nil {
		return err
	}
	if err := producer.Send(ctx, item, 0); err != nil {
		return err
	}
	seen, err := producer.Peek(ctx, 2)
	if err != nil {
		return err
	}
	if len(seen) != 2 {
		return fmt.Errorf("%d messages, want 2", len(seen))
	}
	days := seen[0].Expires.Sub(seen[0].Inserted).Round(time.Hour).Hours() / 24
	s.Claim(days == 7, "the first expires after %.0f days", days)
	s.Claim(seen[1].Expires.Year() == 9999, "the second in the year %d, which is how the service writes never", seen[1].Expires.Year())
	return nil
}

// queueVocabulary uses every operation of the queue service (Q10).
func queueVocabulary(ctx context.Context, s *Stage) error {
	account := s.Account("operator")
	queues := workqueue.OpenAll(account, []workqueue.Spec{plainQueue})
	q := queues.Queue(plainQueue.Name)
	s.Say("Create a queue, and the one for its poison. Creating again is no error.")
	if err := q.Create(ctx); err != nil {
		return err
	}
	if err := q.Create(Quiet(ctx)); err != nil {
		return err
	}
	s.Say("List the queues whose names begin alike.")
	listed, err := queues.List(ctx)
	if err != nil {
		return err
	}
	s.Claim(len(listed) == 2, "there are two: the queue and its poison queue")

	s.Say("Put 40 messages; the first is told. Peek at them: that hides nothing.")
	d := desk{q, "operator"}
	for i, name := range numbered("message", 40) {
		told := ctx
		if i > 0 {
			told = Quiet(ctx)
		}
		if err := d.put(told, "work", name, nil); err != nil {
			return err
		}
	}
	seen, err := q.Peek(ctx, 2)
	if err != nil {
		return err
	}
	s.Claim(len(seen) == 2 && seen[0].DequeueCount == 0, "two are seen, and nobody has received them")

	if err := getUpdateDelete(ctx, s, q); err != nil {
		return err
	}
	if err := account.Ensure(Quiet(ctx), []string{workqueue.ControlContainer}, nil, nil); err != nil {
		return err
	}
	return metadataAndClear(ctx, s, q)
}

func getUpdateDelete(ctx context.Context, s *Stage, q *workqueue.Queue) error {
	s.Say("Get: up to 32 messages with one request, each with a pop receipt.")
	held, err := q.Receive(ctx, 100)
	if err != nil {
		return err
	}
	s.Claim(len(held) == workqueue.MaxBatch, "%d messages came, although 100 were asked for", len(held))

	s.Say("Update a message: hide it longer, with a new receipt; or make it visible at once, with other text. Then delete one.")
	if err := held[0].Renew(ctx); err != nil {
		return err
	}
	if err := held[1].Release(ctx, 0, func(i *workitem.Item) { i.LastError = "seen by the operator" }); err != nil {
		return err
	}
	return held[0].Complete(ctx)
}

func metadataAndClear(ctx context.Context, s *Stage, q *workqueue.Queue) error {
	s.Say("Metadata: texts at the queue itself, read together with its approximate length. Pausing a queue is such a text.")
	if err := q.Pause(ctx); err != nil {
		return err
	}
	state, err := q.Length(ctx)
	if err != nil {
		return err
	}
	s.Claim(state.Length == 39 && state.Policy.Paused, "length %d, hidden messages included, and paused", state.Length)

	s.Say("Clear removes all messages. On a long queue the service removes some, and answers 500 OperationTimedOut. It answers so twice here: the same request goes on where it stopped.")
	const clearer = "patient operator"
	long := s.Desk(clearer, plainQueue, onTheWay(once(unfinished, 2, func(r *http.Request) bool { return r.Method == http.MethodDelete })))
	if err := long.Clear(ctx); err != nil {
		return err
	}
	asked := s.Told(func(e Event) bool { return e.From == clearer })
	s.Claim(asked == 3, "it was asked %d times, until it said 204", asked)
	if state, err = q.Length(ctx); err != nil {
		return err
	}
	s.Claim(state.Length == 0, "the queue is empty")
	s.Say("Delete removes the queue.")
	if err := q.Delete(ctx); err != nil {
		return err
	}
	_, err = q.Length(ctx)
	s.Claim(workqueue.IsMissing(err), "and gone: 404 QueueNotFound")
	return nil
}

// oneErrorThreeNames shows what an error consists of, and that one thing has several
// codes (Q15).
func oneErrorThreeNames(ctx context.Context, s *Stage) error {
	if err := s.Prepare(ctx, plainQueue); err != nil {
		return err
	}
	account := s.Account("client")
	if err := account.Ensure(Quiet(ctx), []string{"media"}, nil, []string{"films"}); err != nil {
		return err
	}
	s.Say("Something is not there. Each service says 404 for it, and each has a code of its own: the status is for machines that know nothing, the code is for us.")
	_, blobErr := account.Container("media").NewBlobClient("film").GetProperties(ctx, nil)
	_, queueErr := account.Queue(plainQueue.Name).DeleteMessage(ctx, "8c2b1a9e-0000-4000-8000-000000000000", "AgAAAAMAAAAAAAAA", nil)
	_, rowErr := account.Table("films").GetEntity(ctx, "film", "META", nil)
	for _, miss := range []struct {
		what, code string
		err        error
	}{{"blob", azstorage.CodeBlobNotFound, blobErr}, {"message", azstorage.CodeMessageNotFound, queueErr}, {"row", azstorage.CodeResourceNotFound, rowErr}} {
		status, code, answered := azstorage.Describe(miss.err)
		s.Claim(answered && status == http.StatusNotFound && code == miss.code, "the %s: %d %s", miss.what, status, code)
	}
	s.Say("An old receipt of a message that is there. Again another status and another code, and a sentence in the answer that is for people.")
	queue := account.Queue(plainQueue.Name)
	sent, err := queue.EnqueueMessage(ctx, "d29yaw==", &azqueue.EnqueueMessageOptions{})
	if err != nil {
		return err
	}
	if _, err := queue.DequeueMessage(ctx, nil); err != nil {
		return err
	}
	_, err = queue.DeleteMessage(ctx, *sent.Messages[0].MessageID, *sent.Messages[0].PopReceipt, nil)
	status, code, _ := azstorage.Describe(err)
	s.Claim(status == http.StatusBadRequest && code == azstorage.CodePopReceiptMismatch, "the receipt of the sender: %d %s, since somebody has received the message", status, code)

	s.Say("A transaction hides its error: the answer is 202, and the refusal is a part of its body. Describe looks inside.")
	err = refusedTransaction(ctx, account)
	status, code, _ = azstorage.Describe(err)
	s.Claim(status == http.StatusConflict && code == azstorage.CodeEntityAlreadyExists, "the transaction: %d %s", status, code)
	inside := s.Told(func(e Event) bool { return strings.HasPrefix(e.Reply, "202, inside 1 × 409") })
	s.Claim(inside == 1, "on the wire its status was 202")

	s.Say("And the user? Nobody wants to read a status or a code. The web role turns what it understands into a problem of RFC 9457 with a sentence; of what it does not, it says when to try again.")
	_, there, ok := azstorage.Describe(errors.New("no service said this"))
	s.Claim(!ok && there == "", "an error that no answer caused has neither: its outcome is unknown")
	return nil
}

// corruptedAndSplit shows checksums on the way (Q12), and a transfer that is cut into
// blocks and goes on where it stopped (Q14).
func corruptedAndSplit(ctx context.Context, s *Stage) error {
	if err := s.Account("stage").Ensure(Quiet(ctx), []string{"media"}, nil, nil); err != nil {
		return err
	}
	if err := corruption(ctx, s); err != nil {
		return err
	}
	return splitUpload(ctx, s, bytes.Repeat([]byte("frame "), 4000))
}

// kinds of requests, by the words of their arrows.
func saying(verbs ...string) func(Event) bool {
	return func(e Event) bool {
		return slices.ContainsFunc(verbs, func(verb string) bool { return strings.HasPrefix(e.Text, verb) })
	}
}
