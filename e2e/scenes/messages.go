package scenes

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

var (
	_ = register(programs, "too-large", tooLarge)
	_ = register(programs, "queue-vocabulary", queueVocabulary)
	_ = register(programs, "one-error-three-names", oneErrorThreeNames)
)

var plainQueue = azq.Spec{Name: "work"}

// tooLarge shows the limit of a message and the claim check (Q9), and what a message
// lives for when nothing is chosen.
func tooLarge(s *Stage) {
	s.Prepare(plainQueue)
	bare := s.Account("producer").Queue(plainQueue.Name)
	_, err := bare.EnqueueMessage(s.ctx, strings.Repeat("x", 70_000), nil)
	status, code, _ := azstore.Describe(err)
	s.Claim(status == http.StatusRequestEntityTooLarge || status == http.StatusBadRequest, status, code)

	script := strings.Repeat("a line of the script\n", 3500)
	producer, worker := s.Desk("producer", plainQueue), s.Desk("worker", plainQueue)
	must(producer.Send(s.ctx, get(azq.NewItem("print", "film-1", "film-1.print", map[string]string{"script": script})), 0, 0))
	s.Next()
	lease := worker.takeOne()
	small := get(lease.Item())
	s.Claim(small.DataRef != "" && small.Data == nil, small.DataRef)
	data := get(azq.DecodeData[map[string]string](get(lease.Open(s.ctx))))
	s.Claim(data["script"] == script, len(script))
	worker.delete(lease)
	s.Next()
	get(s.Account("bare SDK").Queue(plainQueue.Name).EnqueueMessage(s.ctx, "dGhpcyBvbmUgZXhwaXJlcw==", nil))
	producer.put("print", "stays")
	seen := get(producer.Peek(s.ctx, 2))
	if len(seen) != 2 {
		must(errors.New("the two messages cannot be seen"))
	}
	days := seen[0].Expires.Sub(seen[0].Inserted).Round(time.Hour).Hours() / 24
	s.Claim(days == 7, days)
	s.Claim(seen[1].Expires.Year() == 9999, seen[1].Expires.Year())
}

// queueVocabulary uses every operation of the queue service (Q10).
func queueVocabulary(s *Stage) {
	account := s.Account("operator")
	queues := azq.Open(account, azq.Options{Queues: []azq.Spec{plainQueue}})
	q := desk{queues.Queue(plainQueue.Name), "operator", s.ctx}
	must(q.Create(s.ctx))
	must(q.Create(Quiet(s.ctx)))
	s.Next()
	s.Claim(len(get(account.ListQueues(s.ctx))) == 2)

	messages := numbered("message", 40)
	q.put("work", messages[0])
	q.quiet().put("work", messages[1:]...)
	seen := get(q.Peek(s.ctx, 2))
	s.Claim(len(seen) == 2 && seen[0].DequeueCount == 0)

	held := get(q.Receive(s.ctx, 100))
	s.Claim(len(held) == azq.MaxBatch, len(held))
	must(held[0].Renew(s.ctx, nil))
	must(held[1].Release(s.ctx, 0, func(i *azq.Item) { i.LastError = "seen by the operator" }))
	q.delete(held[0])

	s.Next()
	s.Ensure([]string{azq.ControlContainer})
	must(q.Pause(s.ctx))
	state := get(q.Length(s.ctx))
	s.Claim(state.Length == 39 && state.Policy.Paused, state.Length)

	const clearer = "patient operator"
	must(s.Desk(clearer, plainQueue, onTheWay(inject.Once(inject.TimedOut, 2, isDelete))).Clear(s.ctx))
	s.Claim(s.ToldOf(clearer) == 3, s.ToldOf(clearer))
	s.Claim(q.length() == 0)
	must(q.Delete(s.ctx))
	_, err := q.Length(s.ctx)
	s.Claim(azq.IsMissing(err))
}

// oneErrorThreeNames shows what an error consists of, and that one thing has several
// codes (Q15).
func oneErrorThreeNames(s *Stage) {
	s.Prepare(plainQueue)
	s.Ensure([]string{"media"}, "films")
	account := s.Account("client")
	claim := func(err error, status int, code string) {
		gotStatus, gotCode, answered := azstore.Describe(err)
		s.Claim(answered && gotStatus == status && gotCode == code, gotStatus, gotCode)
	}
	queue := account.Queue(plainQueue.Name)
	_, blobErr := account.Container("media").NewBlobClient("film").GetProperties(s.ctx, nil)
	_, queueErr := queue.DeleteMessage(s.ctx, "8c2b1a9e-0000-4000-8000-000000000000", "AgAAAAMAAAAAAAAA", nil)
	_, rowErr := account.Table("films").GetEntity(s.ctx, "film", "META", nil)
	claim(blobErr, http.StatusNotFound, string(bloberror.BlobNotFound))
	claim(queueErr, http.StatusNotFound, string(queueerror.MessageNotFound))
	claim(rowErr, http.StatusNotFound, string(aztables.ResourceNotFound))

	sent := get(queue.EnqueueMessage(s.ctx, "d29yaw==", nil)).Messages[0]
	get(queue.DequeueMessage(s.ctx, nil))
	_, err := queue.DeleteMessage(s.ctx, *sent.MessageID, *sent.PopReceipt, nil)
	claim(err, http.StatusBadRequest, string(queueerror.PopReceiptMismatch))

	row := []byte(`{"PartitionKey":"film","RowKey":"META"}`)
	get(account.Table("films").AddEntity(Quiet(s.ctx), row, nil))
	_, err = account.Table("films").SubmitTransaction(s.ctx, []aztables.TransactionAction{{ActionType: aztables.TransactionTypeAdd, Entity: row}}, nil)
	claim(err, http.StatusConflict, string(aztables.EntityAlreadyExists))
	s.Claim(s.Told(func(e Event) bool { return strings.HasPrefix(e.Reply, "202, inside 1 × 409") }) == 1)
	_, code, answered := azstore.Describe(errors.New("no service said this"))
	s.Claim(!answered && code == "")
}
